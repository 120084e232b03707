package reactor

import (
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A completionQueue is one CQ of a nic. Every queue pair of a connection completes on
// one of them. A nic begins with one, and opens another when a connection has no room
// on those that it has: a CQ of rxe, for one, holds 32,767 completions, which is 258
// connections with the default Config.MaxInFlight.
type completionQueue struct {
	nic    *nic
	queue  *cq.Queue
	conns  int    // connections with places reserved here
	empty  uint64 // how often the CQ was seen empty
	unused bool   // no connection had places here when trim last looked
}

func (q *completionQueue) cq() verbs.CQ { return q.queue.CQ() }

// How many connections a CQ has room for at first. Where the device can resize it, it
// begins small and grows. Elsewhere it is as deep as many loops will ever need; what
// goes beyond that opens another. Both numbers are arbitrary.
const (
	firstConns = 16
	fixedConns = 512
)

// depth is how many completions a new CQ holds.
func (n *nic) depth() int {
	cfg, conns := n.loop.cfg, fixedConns
	if n.dev.Caps().ResizeCQ {
		conns = firstConns
	}
	conns = min(conns, cfg.MaxConns)
	return min(conns*n.completions()+cfg.SRQ, n.dev.Attr().MaxCQE)
}

// completions is how many completions a connection can have outstanding: after an
// error every request has one.
func (n *nic) completions() int {
	sends := n.loop.cfg.MaxInFlight + 1
	if n.loop.cfg.SRQ > 0 {
		return sends
	}
	return sends + n.loop.cfg.MaxInFlight
}

// openQueue opens another CQ. The buffers of a shared receive queue may all complete
// on the same CQ, so each has places for all of them.
func (n *nic) openQueue() (*completionQueue, error) {
	queue, err := n.group.NewQueue(n.depth())
	if err != nil {
		return nil, err
	}
	if err := queue.Reserve(n.loop.cfg.SRQ); err != nil {
		return nil, first(err, queue.Close())
	}
	q := &completionQueue{nic: n, queue: queue}
	n.queues = append(n.queues, q)
	if len(n.queues) > 1 {
		n.watchUse()
	}
	return q, nil
}

// reserve sets aside the places of one connection: on the oldest CQ that has them, so
// that the others empty, or else on a new CQ.
func (n *nic) reserve() (*completionQueue, error) {
	need := n.completions()
	for _, q := range n.queues {
		// A CQ that the device fails to resize is passed over.
		if q.queue.Room() >= need && q.reserve(need) == nil {
			return q, nil
		}
	}
	q, err := n.openQueue()
	if err != nil {
		return nil, err
	}
	if err := q.reserve(need); err != nil {
		return nil, err
	}
	return q, nil
}

func (q *completionQueue) reserve(places int) error {
	if err := q.queue.Reserve(places); err != nil {
		return err
	}
	q.conns++
	return nil
}

// release gives the places of one connection back. Its queue pair is closed.
func (q *completionQueue) release() {
	q.conns--
	q.queue.Release(q.nic.completions())
}

// trimQueues closes the CQs that no connection has used since the last call, except the
// first, and reports whether there are still others. A CQ is kept for that long because
// a loop whose connections come and go at the limit of one CQ would else open and close
// another all the time.
func (n *nic) trimQueues() (others bool) {
	n.queues = slices.DeleteFunc(n.queues, func(q *completionQueue) bool {
		idle := q.conns == 0 && q != n.queues[0]
		if !idle || !q.unused {
			q.unused = idle
			return false
		}
		err := q.queue.Close()
		n.loop.note(err)
		return err == nil
	})
	n.next = 0
	return len(n.queues) > 1
}

// poll hands out a batch of completions. With several CQs each of them has its turn:
// the first to be polled is the one after the last that was, so that none waits longer
// than it takes to go round. A poll that brings the total to a batch is the last.
func (n *nic) poll() (found int) {
	if len(n.queues) == 1 {
		return n.queues[0].poll(n.patience())
	}
	for range n.queues {
		q := n.queues[n.next]
		n.next = (n.next + 1) % len(n.queues)
		if found += q.poll(0); found >= n.loop.cfg.Batch {
			break
		}
	}
	return found
}

// patience is how long a poll may wait inside the provider: not at all, unless the
// provider can, the last turn had no work, and there is no other queue to poll.
func (n *nic) patience() time.Duration {
	l := n.loop
	if !l.idle.spinning || !n.queues[0].queue.CanSpin() || len(l.nics) > 1 {
		return 0
	}
	l.clock.lose()
	return spinLimit
}

// poll hands out a batch of completions of one CQ. A failure ends the connections of
// the device, and nothing else.
func (q *completionQueue) poll(patience time.Duration) int {
	n := q.nic
	wcs, err := q.queue.Spin(patience)
	if err != nil {
		n.fail(err)
	}
	for i := range wcs {
		n.complete(&wcs[i])
	}
	if len(wcs) < n.loop.cfg.Batch {
		q.empty++
	}
	return len(wcs)
}

// pollAgain polls out of turn, and reports whether it saw all there is. Consume lets a
// device that is driven by its owner look everywhere.
func (q *completionQueue) pollAgain() (all bool) {
	if _, err := q.nic.group.Consume(); err != nil {
		q.nic.fail(err)
	}
	before := q.empty
	if found := q.poll(0); found > 0 {
		q.nic.loop.stats.batch(found)
	}
	return q.empty != before
}
