package initiator

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Queue is the connection of one queue. Its methods without a context belong to the
// loop of the connection.
type Queue struct {
	host *Host
	conn *reactor.Conn
	id   uint16
	size int

	opened chan error    // channel for the result of Dial
	ended  chan struct{} // This channel is closed when the connection has ended.
	err    error         // error of the ended connection

	inFlight map[uint16]*Request
	waiting  []*Request // requests that wait for a place or for the send queue
	lastID   uint16
}

// A Request is a command and its data.
type Request struct {
	Command [nvme.CommandSize]byte // Submit sets the flags, the identifier and the SGL
	// Data is the memory of the data. A length of 0 means no data.
	Data reactor.Piece
	// InCapsule has data that is sent in the capsule, instead of Data.
	InCapsule []byte
	// Show gives the target a key for Data that is used only for this request, and asks
	// the target to make the key invalid with its response. A target that does not do so
	// loses the connection. The Region of Data needs verbs.AccessMWBind.
	Show bool
	// Raw makes Submit set only the identifier, so that a test can send wrong commands.
	Raw bool
	// Done is called on the loop of the queue when the response has arrived, or with an
	// error if the connection has ended.
	Done func(r *nvme.Response, err error)
	key  uint32 // key that the target has and must make invalid; 0 means none
}

func newQueue(h *Host, id uint16, size int) *Queue {
	return &Queue{
		host: h, id: id, size: size, opened: make(chan error, 1), ended: make(chan struct{}),
		inFlight: make(map[uint16]*Request),
	}
}

func (q *Queue) open(c *reactor.Conn) {
	q.conn = c
	q.opened <- nil
}

// ID returns the identifier of the queue.
func (q *Queue) ID() uint16 { return q.id }

// Ended returns a channel that is closed when the connection has ended.
func (q *Queue) Ended() <-chan struct{} { return q.ended }

// Post calls fn on the loop of the queue.
func (q *Queue) Post(fn func()) error { return q.conn.Loop().Post(fn) }

// Close closes the connection.
func (q *Queue) Close(ctx context.Context) error {
	if err := q.Post(func() { _ = q.conn.Close() }); err != nil {
		return err
	}
	select {
	case <-q.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Submit sends a request, or keeps it until there is room. The request belongs to the
// queue until Done is called.
func (q *Queue) Submit(r *Request) {
	select {
	case <-q.ended:
		r.Done(nil, q.err)
		return
	default:
	}
	q.waiting = append(q.waiting, r)
	q.sendWaiting()
}

// sendWaiting sends the requests for which there is room.
func (q *Queue) sendWaiting() {
	for len(q.waiting) > 0 && len(q.inFlight) < q.size {
		r := q.waiting[0]
		err := q.send(r)
		if errors.Is(err, reactor.ErrWouldBlock) {
			return // OnWritable follows
		}
		q.waiting = q.waiting[1:]
		if err != nil {
			r.Done(nil, err)
		}
	}
}

// send sends the capsule of a request.
func (q *Queue) send(r *Request) error {
	cmd, id := nvme.Command(r.Command[:]), q.unusedID()
	cmd.SetID(id)
	if !r.Raw {
		cmd.SetFlags()
		if err := q.describe(r); err != nil {
			return err
		}
	}
	if err := q.conn.Send(append(r.Command[:len(cmd):len(cmd)], r.InCapsule...), nil); err != nil {
		return err
	}
	q.inFlight[id] = r
	return nil
}

// SendRaw sends a capsule as it is. Only tests need wrong capsules. The response to a
// command with an unknown identifier ends the connection.
func (q *Queue) SendRaw(capsule []byte) error { return q.conn.Send(capsule, nil) }

// describe sets the SGL of a request.
func (q *Queue) describe(r *Request) error {
	sgl := nvme.Command(r.Command[:]).SGL()
	switch {
	case len(r.InCapsule) > 0:
		sgl.SetInCapsule(0, uint32(len(r.InCapsule)))
	case r.Data.Length == 0:
		sgl.SetKeyed(nvme.SGLKeyed, 0, 0, 0)
	case r.key != 0: // An earlier call has set the SGL, but the message was not accepted.
	case r.Show:
		shown, err := q.conn.Show(r.Data, verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
		if err != nil {
			return err
		}
		r.key = shown.RKey
		sgl.SetKeyed(nvme.SGLKeyedInvalidate, shown.Addr, uint32(r.Data.Length), shown.RKey)
	default:
		at, err := r.Data.Region.Remote(q.conn.Info().Device, r.Data.Offset, r.Data.Length)
		if err != nil {
			return err
		}
		sgl.SetKeyed(nvme.SGLKeyed, at.Addr, uint32(r.Data.Length), at.RKey)
	}
	return nil
}

// unusedID returns an identifier that no request in flight has.
func (q *Queue) unusedID() uint16 {
	for {
		q.lastID++
		if q.inFlight[q.lastID] == nil {
			return q.lastID
		}
	}
}

func (q *Queue) receive(msg reactor.Message) {
	var resp nvme.Response
	err := resp.UnmarshalBinary(msg.Data())
	r := q.inFlight[resp.Command]
	if err == nil && r == nil {
		err = fmt.Errorf("initiator: response to the command %d, which is not in flight", resp.Command)
	}
	if key, _ := msg.Invalidated(); err == nil && key != r.key {
		err = fmt.Errorf("initiator: the response makes the key %#x invalid instead of %#x", key, r.key)
	}
	if err != nil {
		_ = q.conn.Abort(err) // OnClose follows
		return
	}
	delete(q.inFlight, resp.Command)
	r.key = 0
	r.Done(&resp, nil)
	q.sendWaiting()
}

func (q *Queue) writable() { q.sendWaiting() }

// end fails all requests.
func (q *Queue) end(err error) {
	if q.err = err; err == nil {
		q.err = ErrEnded
	}
	close(q.ended)
	for _, r := range q.inFlight {
		r.Done(nil, q.err)
	}
	for _, r := range q.waiting {
		r.Done(nil, q.err)
	}
	q.inFlight, q.waiting = nil, nil
}

// Do submits a request and waits for its response. It replaces r.Done. If the status of
// the response is not nvme.Success, Do returns the response, and the status as the error.
// Any goroutine may call Do, except one that runs a loop.
func (q *Queue) Do(ctx context.Context, r *Request) (*nvme.Response, error) {
	type result struct {
		resp nvme.Response
		err  error
	}
	done := make(chan result, 1)
	r.Done = func(resp *nvme.Response, err error) {
		if err == nil {
			done <- result{resp: *resp}
		} else {
			done <- result{err: err}
		}
	}
	if err := q.Post(func() { q.Submit(r) }); err != nil {
		return nil, err
	}
	select {
	case d := <-done:
		if d.err == nil && d.resp.Status != nvme.Success {
			d.err = d.resp.Status
		}
		return &d.resp, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Remote returns the address and key of the first n bytes of a region for the target.
// Only tests need it, for wrong commands.
func (q *Queue) Remote(r *reactor.Region, n int) (reactor.Remote, error) {
	return r.Remote(q.conn.Info().Device, 0, n)
}
