//go:build linux

package hostile

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A streamClient sends messages on streams, one at a time on each, and checks the echoes.
type streamClient struct {
	streamNode
	spec   Spec
	stop   *event         // event that happens when the client must end
	opened sync.WaitGroup // first dials
	flows  sync.WaitGroup

	mu    sync.Mutex
	tally Tally
}

func (c *streamClient) start(s *Spec) (Note, error) {
	c.spec, c.stop = *s, newEvent()
	if c.spec.Pause == 0 {
		c.spec.Pause = defaultPause
	}
	if err := c.streamNode.open(s); err != nil {
		return Note{}, err
	}
	for i := range max(s.Conns, 1) {
		c.opened.Add(1)
		c.flows.Go(func() { c.flow(s.Seed<<16 + uint64(i)) })
	}
	c.opened.Wait()
	note := c.report()
	if note.Tally.Failed > 0 {
		return note, errors.New(note.Tally.Cause)
	}
	return note, nil
}

// count changes the counters under the lock.
func (c *streamClient) count(change func(t *Tally)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.tally)
}

func (c *streamClient) stopped() bool {
	select {
	case <-c.stop.done:
		return true
	default:
		return false
	}
}

// flow keeps one stream until the client ends.
func (c *streamClient) flow(seed uint64) {
	first := sync.OnceFunc(c.opened.Done)
	defer first()
	for n := uint64(0); !c.stopped(); {
		began := time.Now()
		conn, err := c.network.Dial("tcp", c.spec.Addr.String())
		if err == nil {
			c.count(func(t *Tally) {
				t.Opened++
				if c.spec.RecordDials {
					t.DialTimes = append(t.DialTimes, time.Since(began))
				}
			})
			first()
			err = c.exchange(conn, seed, &n)
			err = errors.Join(err, conn.Close())
		}
		if err != nil {
			c.count(func(t *Tally) {
				t.Failed++
				if t.Cause == "" {
					t.Cause = err.Error()
				}
			})
			first()
			time.Sleep(redialAfter)
		}
	}
}

var errDamaged = errors.New("an echo differs from its message")

// exchange sends messages and compares the echoes, until Spec.Messages have come back or
// the client ends. The parameter n is the number of the next message.
func (c *streamClient) exchange(conn net.Conn, seed uint64, n *uint64) error {
	var out, in [maxMessage]byte
	for sent := 0; !c.stopped() && (c.spec.Messages == 0 || sent < c.spec.Messages); sent++ {
		b := message(out[:], seed, *n)
		*n++
		began := time.Now()
		_, err := conn.Write(b)
		if err == nil {
			_, err = io.ReadFull(conn, in[:len(b)])
		}
		if err != nil {
			c.count(func(t *Tally) { t.Lost++ })
			return err
		}
		if !bytes.Equal(b, in[:len(b)]) {
			c.count(func(t *Tally) { t.Damaged++ })
			return errDamaged
		}
		c.count(func(t *Tally) { t.Echoes++; t.took(time.Since(began)) })
		select {
		case <-c.stop.done:
		case <-time.After(c.spec.Pause):
		}
	}
	return nil
}

func (c *streamClient) report() (note Note) {
	c.count(func(t *Tally) {
		note.Tally = *t
		note.Tally.DialTimes = append([]time.Duration(nil), t.DialTimes...)
	})
	return note
}

func (c *streamClient) await() {}

// finish waits for the outstanding echoes and closes the client.
func (c *streamClient) finish() (Note, error) {
	c.stop.happen()
	c.flows.Wait()
	note := c.report()
	return note, c.close()
}
