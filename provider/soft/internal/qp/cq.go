//go:build linux

package qp

import (
	"fmt"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// cq implements verbs.CQ. It belongs to its shard.
type cq struct {
	engine *Engine
	shard  *Shard
	vector int
	chn    *compChannel
	cookie uint64

	batch batch // what the poll that runs now returns
	ring  []cqe // queued completions; grows up to the CQ's depth
	// head is the number of completions that were removed from the ring. tail is the number
	// of completions that were added. Both numbers wrap.
	head, tail uint32
	depth      int
	// number of polls that found enough completions in the ring; see driveIsDue
	ringPolls int
	overrun   bool // true once a completion did not fit into the full CQ; see overflow
	failTimer Timer

	arming  arming
	queued  bool // true while an event of the CQ is in the channel's queue
	unacked int  // number of events delivered and not yet acknowledged with AckEvents
	refs    int  // number of send and receive queues that use the CQ
	closed  atomic.Bool
}

// A batch is what one poll returns. While the poll drives the shard, completions go from the
// queue pairs to the slice of the caller. Outside a poll the batch is full.
type batch struct {
	dst  []verbs.WC
	data []verbs.InlineData // CQAttr.Inline
	// numbers of elements that may be filled: limit for dst, inlineLimit for data; both are 0
	// outside a poll
	limit, inlineLimit int
	stored             int // number of completions in dst
	// number of completions in dst that push has stored; 0 outside a poll. Only these
	// completions count towards the depth of the CQ.
	counted int
}

// begin begins a poll that has n completions already. Most polls pass the slice of the poll
// before. Finding that out is cheaper than storing it.
func (b *batch) begin(dst []verbs.WC, n int) {
	if len(dst) != len(b.dst) || len(dst) > 0 && &dst[0] != &b.dst[0] {
		b.dst = dst
	}
	b.stored, b.counted = n, 0
	b.limit, b.inlineLimit = len(dst), min(len(dst), len(b.data))
}

// end ends the poll, and returns the number of its completions.
func (b *batch) end() int {
	b.counted, b.limit, b.inlineLimit = 0, 0, 0
	return b.stored
}

// takes reports whether the poll can return one more completion.
func (b *batch) takes() bool { return b.stored < b.limit }

// push adds a completion.
func (b *batch) push(wc *verbs.WC) {
	copyWC(&b.dst[b.stored], wc)
	b.stored++
	b.counted++
}

// takesInline reports whether the poll can return one more completion with its bytes.
func (b *batch) takesInline() bool { return b.stored < b.inlineLimit }

// fullInline reports whether the poll takes bytes, but no more of them.
func (b *batch) fullInline() bool { return b.inlineLimit > 0 && b.stored == b.inlineLimit }

// pushInline adds a completion with its bytes, which the caller fills in. No receive buffer
// is used, so the completion does not count towards the depth.
func (b *batch) pushInline() (*verbs.WC, *verbs.InlineData) {
	at := b.stored
	b.stored++
	return &b.dst[at], &b.data[at]
}

// A cqe is a queued completion. It occupies an entry of the request's work queue until a
// poll returns it (IBTA vol. 1, 10.8.5.1).
type cqe struct {
	wc    verbs.WC
	space *cqSpace // work queue whose entry the completion occupies
}

// A cqSpace counts the entries of a work queue that are occupied by queued completions.
type cqSpace struct {
	held uint32 // number of occupied entries
	// true once the queue pair is destroyed; Poll then skips its completions
	destroyed bool
}

// arming says which completion of a CQ raises the next event. The event disarms the CQ.
type arming uint8

const (
	disarmed       arming = iota // no completion raises an event
	armedSolicited               // the next solicited or failed completion raises an event
	armedAny                     // the next completion raises an event
)

// CreateCQ implements verbs.Device.
func (e *Engine) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	c, err := e.createCQ(attr)
	if err != nil {
		return nil, operr.Wrap("create CQ", err)
	}
	return c, nil
}

func (e *Engine) createCQ(attr *verbs.CQAttr) (*cq, error) {
	if attr == nil {
		return nil, errNilAttr
	}
	if err := checkCQDepth(attr.Depth); err != nil {
		return nil, err
	}
	c := &cq{engine: e, cookie: attr.Cookie, vector: attr.Vector, batch: batch{data: attr.Inline}}
	progress := attr.Progress
	if attr.Channel != nil {
		chn, ok := attr.Channel.(*compChannel)
		if !ok || chn.engine != e {
			return nil, fmt.Errorf("%w: the completion channel is of another device", verbs.ErrForeign)
		}
		if chn.vector != attr.Vector || chn.progress != progress {
			return nil, &verbs.ParamError{Field: "vector", Value: int64(attr.Vector), Limit: int64(chn.vector), Reason: "a CQ must have the vector and progress of its channel"}
		}
		c.chn = chn
	}
	shard, err := e.Shard(attr.Vector, progress)
	if err != nil {
		return nil, err
	}
	if err := e.Add(objCQ, "completion queues", maxCQ); err != nil {
		return nil, err
	}
	c.shard, c.depth = shard, attr.Depth
	c.failTimer.Init(shard, timerheap.Func(c.failQPs))
	c.resize(min(ceilPow2(attr.Depth), initialCQEs))
	if c.chn != nil {
		if err := c.chn.attach(); err != nil {
			e.Remove(objCQ)
			return nil, err
		}
	}
	return c, nil
}

func checkCQDepth(depth int) error {
	return operr.CheckRange("CQ depth", depth, 1, maxCQE)
}

// initialCQEs is how many completions the ring of a new CQ can hold. Arbitrary.
const initialCQEs = 64

// resize changes the size of the ring, which is a power of two.
func (c *cq) resize(size int) {
	ring := make([]cqe, size)
	n := uint32(0)
	for ; c.head != c.tail; c.head++ {
		ring[n] = c.ring[c.head&uint32(len(c.ring)-1)]
		n++
	}
	c.ring, c.head, c.tail = ring, 0, n
}

// Depth implements verbs.CQ.
func (c *cq) Depth() int {
	c.shard.Enter()
	defer c.shard.Leave()
	return c.depth
}

// Resize implements verbs.CQ.
func (c *cq) Resize(depth int) error {
	c.shard.Enter()
	defer c.shard.Leave()
	switch err := checkCQDepth(depth); {
	case c.closed.Load():
		return operr.Wrap("resize CQ", verbs.ErrClosed)
	case err != nil:
		return operr.Wrap("resize CQ", err)
	case depth < int(c.tail-c.head):
		return operr.Wrap("resize CQ", &verbs.ParamError{Field: "CQ depth", Value: int64(depth), Limit: int64(c.tail - c.head), Reason: "less than the number of queued completions"})
	}
	c.depth = depth
	return nil
}

// copyWC copies a completion field by field. Copying the whole struct would be slower,
// because its fields have just been written one by one.
func copyWC(to, from *verbs.WC) {
	to.ID, to.Opcode, to.ByteLen, to.QPN = from.ID, from.Opcode, from.ByteLen, from.QPN
	to.Status, to.Imm, to.SrcQPN = from.Status, from.Imm, from.SrcQPN
	to.Flags, to.VendorErr, to.Time = from.Flags, from.VendorErr, from.Time
}

// push adds a completion to the CQ. A failed completion always counts as solicited (IBTA
// vol. 1, 11.4.2.2).
func (c *cq) push(wc *verbs.WC, from *cqSpace, solicited bool) {
	switch queued := int(c.tail - c.head); {
	case queued == 0 && c.batch.takes() && c.batch.counted < c.depth:
		c.batch.push(wc)
		from.held--
	// The completions in the batch and in the ring together must not exceed the depth.
	case queued < c.depth-c.batch.counted:
		if queued == len(c.ring) {
			c.resize(2 * len(c.ring))
		}
		e := &c.ring[c.tail&uint32(len(c.ring)-1)]
		copyWC(&e.wc, wc)
		e.space = from
		c.tail++
	default:
		c.overflow()
		return
	}
	c.added(solicited || wc.Status != verbs.StatusSuccess)
}

// added is called for each new completion. It raises an event if the CQ is armed for it.
func (c *cq) added(solicited bool) {
	if c.arming == armedAny || c.arming == armedSolicited && solicited {
		c.fire()
	}
}

// fire disarms the CQ, and queues an event on its channel.
func (c *cq) fire() {
	c.disarm()
	if c.chn != nil {
		c.chn.push(c)
	}
}

// Poll implements verbs.CQ. A poll that finds enough completions in the ring does not always
// call shard.drive(); see drivePolls.
func (c *cq) Poll(dst []verbs.WC) (int, error) {
	s := c.shard
	s.Enter()
	if c.closed.Load() || c.overrun {
		c.failNow()
		s.Leave()
		return 0, operr.Wrap("poll CQ", c.failure())
	}
	n := 0
	if c.head != c.tail {
		n = c.drain(dst)
	}
	if n < len(dst) || c.head == c.tail || c.driveIsDue() {
		c.batch.begin(dst, n)
		s.drive()
		n = c.batch.end()
	}
	s.backlog = c.head != c.tail
	s.Leave()
	return n, nil
}

// drivePolls says how often a poll calls shard.drive() although it has found enough
// completions in the ring: every drivePolls-th such poll does. Arbitrary.
const drivePolls = 4

// driveIsDue counts a poll that has found enough completions in the ring. It reports
// whether the poll calls shard.drive() too.
func (c *cq) driveIsDue() bool {
	c.ringPolls++
	return c.ringPolls%drivePolls == 0
}

// drain moves completions from the ring to dst, and returns their number.
func (c *cq) drain(dst []verbs.WC) (n int) {
	for ; n < len(dst) && c.head != c.tail; c.head++ {
		e := &c.ring[c.head&uint32(len(c.ring)-1)]
		if !e.space.destroyed {
			copyWC(&dst[n], &e.wc)
			n++
		}
		e.space.held--
		e.space = nil // The ring must not keep a closed queue pair alive.
	}
	return n
}

// failure returns the error of a call on a CQ that is closed or has overrun.
func (c *cq) failure() error {
	if c.closed.Load() {
		return verbs.ErrClosed
	}
	return verbs.ErrOverrun
}

// Arm implements verbs.CQ.
func (c *cq) Arm(solicitedOnly bool) error {
	c.shard.Enter()
	defer c.shard.Leave()
	switch {
	case c.closed.Load() || c.overrun:
		return operr.Wrap("arm CQ", c.failure())
	case c.chn == nil:
		return operr.Wrap("arm CQ", &verbs.ParamError{Field: "channel", NotNumber: true, Reason: "the CQ has no channel"})
	}
	if c.arming == disarmed {
		c.shard.armed++
	}
	// armedAny is stronger than armedSolicited (ibv_req_notify_cq(3)).
	want := armedAny
	if solicitedOnly {
		want = armedSolicited
	}
	c.arming = max(c.arming, want)
	return nil
}

// AckEvents implements verbs.CQ.
func (c *cq) AckEvents(n int) {
	c.shard.Enter()
	defer c.shard.Leave()
	c.unacked = max(c.unacked-max(n, 0), 0)
}

// Close implements verbs.CQ.
func (c *cq) Close() error {
	c.shard.Enter()
	defer c.shard.Leave()
	if c.closed.Load() {
		return nil
	}
	if c.refs > 0 || c.unacked > 0 {
		return operr.Wrap("close CQ", fmt.Errorf("%w: the CQ has queue pairs, or events that are not acknowledged", verbs.ErrBusy))
	}
	c.closed.Store(true)
	c.failTimer.Stop()
	c.disarm()
	if c.chn != nil {
		c.chn.detach(c)
	}
	c.engine.Remove(objCQ)
	c.engine.async.forget(c)
	return nil
}

// A CQ that has no room for a completion enters an error state, which it never leaves
// (IBTA vol. 1, 10.8.5 and 11.6.3.1; ibv_get_async_event(3)). Its queue pairs fail in
// the next call of shard.drive(). They do not fail at once, because one of them may
// still be processing a request.

// overflow moves a full CQ to the error state.
func (c *cq) overflow() {
	if c.overrun {
		return
	}
	c.overrun = true
	c.engine.async.push(verbs.AsyncEvent{Type: verbs.AsyncCQError, CQ: c})
	c.failTimer.Start(0)
	c.fire()
}

// failNow fails the queue pairs of an overrun CQ, if failTimer has not done so yet.
// Poll calls it before it returns verbs.ErrOverrun.
func (c *cq) failNow() {
	if c.failTimer.Running() {
		c.failTimer.Stop()
		c.failQPs()
	}
}

// failQPs fails the queue pairs of an overrun CQ. Their flushed requests have no
// completions.
func (c *cq) failQPs() {
	for _, q := range c.engine.qpsOn(c) {
		if q.state != verbs.StateReset && q.state != verbs.StateError {
			c.engine.async.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: q})
			q.enterError()
		}
	}
}
