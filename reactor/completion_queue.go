package reactor

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A completionQueue is one CQ of a loopDevice. Each connection uses one CQ, and reserves
// places for its completions.
type completionQueue struct {
	device *loopDevice
	queue  *cq.Queue
	conns  int // number of connections that have reserved places on this CQ
	// emptyPolls counts the polls that have left the CQ empty: see cq.Queue.Emptied.
	emptyPolls uint64
	// emptyPollsAtUnused is the value of emptyPolls at the time at which the last connection
	// left the shared receive queue.
	emptyPollsAtUnused uint64
	handled            uint64     // number of completions that were polled and handled
	batch              []verbs.WC // completions of the last poll that has found some
	// at is the number of completions in batch that were handled, or 0 if all were. It is
	// above 0 only in handle, and after a callback has panicked there.
	at           int
	unusedAtTrim bool // true if the last call of trimQueues found this CQ unused
}

func (q *completionQueue) cq() verbs.CQ { return q.queue.CQ() }

// The numbers of connections for which a new CQ has room. Both numbers are arbitrary.
const (
	// initialCQConns is for a device that can resize a CQ. The CQ grows with the number of
	// connections.
	initialCQConns = 16
	// fixedCQConns is for a device that can not resize a CQ. It is more than most loops
	// need. Further connections use another CQ.
	fixedCQConns = 512
)

// cqDepth returns how many completions a new CQ holds.
func (d *loopDevice) cqDepth() int {
	conns, shared := fixedCQConns, 0
	if d.sharedRecv != nil {
		shared = d.sharedRecv.sizes.limit
	}
	if d.dev.Caps().ResizeCQ {
		conns, shared = initialCQConns, d.sharedRecvSize()
	}
	conns = min(conns, d.loop.cfg.MaxConns)
	return min(conns*d.completionsPerConn(d.sharedRecv == nil)+shared, d.dev.Attr().MaxCQE)
}

// completionsPerConn returns how many completions one connection can have in a CQ. The
// parameter own says whether it has a receive queue of its own. Unsignaled requests count
// too, because after an error they also complete. Receives from a shared queue do not
// count: openQueue reserves their places.
func (d *loopDevice) completionsPerConn(own bool) int {
	sends := d.loop.cfg.MaxInFlight + 1 + d.loop.cfg.longSlots()
	if !own {
		return sends
	}
	return sends + d.loop.cfg.ownRecvBuffers()
}

// sharedRecvSize returns the number of buffers of the shared receive queue.
func (d *loopDevice) sharedRecvSize() int {
	if d.sharedRecv == nil {
		return 0
	}
	return d.sharedRecv.size
}

// reserveShared reserves n places on every CQ, for completions of the shared receive
// queue. After an error nothing is reserved.
func (d *loopDevice) reserveShared(n int) error {
	for i, q := range d.queues {
		if err := q.queue.Reserve(n); err != nil {
			for _, reserved := range d.queues[:i] {
				reserved.queue.Release(n)
			}
			return err
		}
	}
	return nil
}

// releaseShared releases n places that reserveShared has reserved.
func (d *loopDevice) releaseShared(n int) {
	for _, q := range d.queues {
		q.queue.Release(n)
	}
}

// openQueue opens another CQ. It reserves places for all buffers of a shared receive
// queue.
func (d *loopDevice) openQueue() (*completionQueue, error) {
	queue, err := d.group.NewQueue(d.cqDepth())
	if err != nil {
		return nil, err
	}
	if err := queue.Reserve(d.sharedRecvSize()); err != nil {
		return nil, firstError(err, queue.Close())
	}
	q := &completionQueue{device: d, queue: queue}
	d.queues = append(d.queues, q)
	if len(d.queues) > 1 {
		d.startTrimTimer()
	}
	return q, nil
}

// reserve reserves places for one connection on one CQ. The parameter need is the number
// of places. reserve chooses the oldest CQ with enough room, so that newer CQs become
// unused and trimQueues can close them. If no CQ has enough room, reserve opens another.
func (d *loopDevice) reserve(need int) (*completionQueue, error) {
	for _, q := range d.queues {
		// reserve skips a CQ that the device fails to resize.
		if q.queue.Room() >= need && q.reserve(need) == nil {
			return q, nil
		}
	}
	q, err := d.openQueue()
	if err != nil {
		return nil, err
	}
	if err := q.reserve(need); err != nil {
		return nil, err
	}
	return q, nil
}

// reserve reserves places for the completions of one connection on this CQ.
func (q *completionQueue) reserve(places int) error {
	if err := q.queue.Reserve(places); err != nil {
		return err
	}
	q.conns++
	return nil
}

// release releases the places of one connection whose queue pair is closed.
func (q *completionQueue) release(places int) {
	q.conns--
	q.queue.Release(places)
}

// trimQueues closes CQs that were unused at two successive calls, except the first CQ.
// It reports whether more than one CQ is left.
func (d *loopDevice) trimQueues() (others bool) {
	d.queues = slices.DeleteFunc(d.queues, func(q *completionQueue) bool {
		idle := q.conns == 0 && q != d.queues[0]
		if !idle || !q.unusedAtTrim {
			q.unusedAtTrim = idle
			return false
		}
		err := q.queue.Close()
		d.loop.recordError(err)
		return err == nil
	})
	d.next = 0
	return len(d.queues) > 1
}

// poll polls the CQs of the device until Config.Limits.CompletionBudget completions are
// handled. It begins with the CQ after the last one that was polled.
func (d *loopDevice) poll() (found int) {
	if len(d.queues) == 1 {
		return d.queues[0].poll()
	}
	for range d.queues {
		q := d.queues[d.next]
		d.next = (d.next + 1) % len(d.queues)
		if found += q.poll(); found >= d.loop.cfg.Limits.CompletionBudget {
			break
		}
	}
	return found
}

// poll polls one CQ, handles up to Config.Limits.CompletionBudget completions, and returns
// their number. A failed poll ends the connections of this device only.
func (q *completionQueue) poll() int {
	wcs, err := q.queue.Poll()
	if err != nil {
		q.device.fail(err)
	}
	if len(wcs) > 0 {
		q.batch = wcs
		q.handle(0)
		q.handled += uint64(len(wcs))
	}
	if q.queue.Emptied() {
		q.emptyPolls++
	}
	return len(wcs)
}

// handle handles the completions in batch from the index i on.
func (q *completionQueue) handle(i int) {
	for d, wcs := q.device, q.batch; i < len(wcs); i++ {
		q.at = i + 1
		if wc := &wcs[i]; wc.Flags&verbs.WCInline != 0 && wc.Status == verbs.StatusSuccess {
			d.completeInline(wc, q.queue.InlineData(i)[:min(wc.ByteLen, verbs.InlineBytes)])
		} else {
			d.complete(wc)
		}
	}
	q.at = 0
}

// pollAgain polls the CQ a second time in a turn. It reports whether the CQ is empty
// afterwards. It first calls cq.Group.Consume for devices with verbs.ProgressManual.
func (q *completionQueue) pollAgain() (empty bool) {
	d := q.device
	if _, err := d.group.Consume(); err != nil {
		d.fail(err)
	}
	before := q.emptyPolls
	if found := q.poll(); found > 0 {
		d.loop.stats.countBatch(found)
	}
	return q.emptyPolls != before
}

// A catchUp polls a CQ after a time limit has passed and before the connection ends. If
// the loop was delayed, the awaited completion may already be in the CQ, and then the
// connection need not end. The zero value is ready to use.
type catchUp struct {
	// end is the value of completionQueue.handled at which the catchUp is complete. It is
	// 0 if no catchUp is in progress.
	end uint64
}

// poll polls the CQ once. It returns true when all completions from before the first
// poll are handled.
func (c *catchUp) poll(q *completionQueue) (done bool) {
	if c.end == 0 {
		c.end = q.handled + uint64(q.cq().Depth())
	}
	if !q.pollAgain() && q.handled < c.end {
		return false
	}
	c.reset()
	return true
}

// reset ends a catchUp that is in progress. The next poll begins another one.
func (c *catchUp) reset() { c.end = 0 }

// complete passes a completion to its connection. If the connection is closed already,
// the completion is counted and dropped.
func (d *loopDevice) complete(wc *verbs.WC) {
	id, l := wrID(wc.ID), d.loop
	if d.sharedRecv != nil && !id.ofConn() {
		d.recvShared(wc)
		return
	}
	switch c := l.conns.get(id); {
	case c == nil:
		l.stats.LateCompletions++
	case !id.recv():
		c.sendCompleted(wc, id.slot())
	case c.immediatesOnly:
		c.emptyRecvCompleted(wc)
	default:
		c.recvCompleted(wc, c.recvs.own.complete(id.slot()))
	}
}

// completeInline passes a small message to its connection. The parameter data has the
// bytes of the message.
func (d *loopDevice) completeInline(wc *verbs.WC, data []byte) {
	var c *Conn
	if id := wrID(wc.ID); d.sharedRecv != nil && !id.ofConn() {
		c = d.sharedRecv.conns.get(wc.QPN)
	} else {
		c = d.loop.conns.get(id)
	}
	if c == nil {
		d.loop.stats.LateCompletions++
		return
	}
	c.recvInline(wc, data)
}
