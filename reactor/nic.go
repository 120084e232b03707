package reactor

import (
	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A nic is one device as one loop uses it: what the loop owns there. It is made
// when the loop meets the device, and ends with the loop.
type nic struct {
	loop    *Loop
	dev     verbs.Device
	pd      verbs.PD
	group   *cq.Group
	queues  []*completionQueue // queues[0] stays open as long as the nic
	next    int                // index in queues at which the next poll begins
	slab    slab
	shared  *sharedRecv // the shared receive queue; nil if each connection has its own
	mrs     []verbs.MR  // memory regions of Loop.Alloc
	trimmer timer       // timer that calls trim
	broken  error       // error for which nothing completes any more, or nil
	gone    bool        // the device was removed, and nothing completes any more

	// consumed is Stats.Turns+1 at the last call of consume; 0 if there was none.
	consumed uint64
}

// nic returns the loop's side of a device.
func (l *Loop) nic(dev verbs.Device) (*nic, error) {
	for _, n := range l.nics {
		if n.dev == dev {
			return n, nil
		}
	}
	n := &nic{loop: l, dev: dev}
	if err := n.open(); err != nil {
		return nil, first(err, n.close())
	}
	l.nics = append(l.nics, n)
	return n, nil
}

// home is the loop's first device, for memory that is not about a connection.
func (l *Loop) home() (*nic, error) {
	if len(l.nics) > 0 {
		return l.nics[0], nil
	}
	devices, err := l.engine.provider.Devices()
	if err != nil {
		return nil, err
	}
	if len(devices) == 0 {
		return nil, &verbs.ParamError{Field: "devices", Reason: "the provider has none"}
	}
	return l.nic(devices[0])
}

func (n *nic) open() (err error) {
	l, cfg, attr := n.loop, n.loop.cfg, n.dev.Attr()
	if err := cfg.fits(n.dev); err != nil {
		return err
	}
	if n.pd, err = n.dev.AllocPD(); err != nil {
		return err
	}
	n.slab = slab{pd: n.pd, size: cfg.MaxMessage, huge: cfg.HugePages, grown: n.watchUse}
	n.group, err = cq.NewGroup(n.dev, &cq.Config{
		Vector:   l.index % max(1, attr.NumCompVectors),
		Progress: verbs.ProgressManual,
		Batch:    cfg.Batch,
	})
	if err != nil {
		return err
	}
	if _, err = n.openQueue(); err != nil {
		return err
	}
	if _, err = l.watch(n.group.FD(), poller.Readable, (*cqSource)(n)); err != nil {
		return err
	}
	if cfg.SRQ > 0 {
		if err := n.openShared(); err != nil {
			return err
		}
	}
	return l.claimAsync(n.dev)
}

func (n *nic) openShared() error {
	size := n.loop.cfg.SRQ
	srq, err := n.pd.CreateSRQ(&verbs.SRQAttr{MaxWR: size, MaxSGE: 1, CQ: n.queues[0].cq()})
	if err != nil {
		return err
	}
	n.shared = &sharedRecv{srq: srq, conns: make(map[uint32]*Conn), wrs: make([]verbs.RecvWR, 0, sharedRecvBatch)}
	for range size {
		b, err := n.slab.get()
		if err != nil {
			return err
		}
		if err := n.shared.stage(b); err != nil {
			return err
		}
	}
	return n.shared.post()
}

// qpAttr returns the attributes of a queue pair that completes on q.
func (n *nic) qpAttr(q *completionQueue) *verbs.QPInitAttr {
	cfg := n.loop.cfg
	attr := &verbs.QPInitAttr{
		Type:   verbs.QPTypeRC,
		SendCQ: q.cq(),
		RecvCQ: q.cq(),
		Caps: verbs.QPCaps{
			MaxSendWR: cfg.MaxInFlight + 1, MaxSendSGE: 1,
			MaxRecvWR: cfg.MaxInFlight, MaxRecvSGE: 1,
			MaxInline: min(cfg.MaxInline, n.dev.Attr().MaxInline),
		},
	}
	if n.shared != nil {
		attr.SRQ, attr.Caps.MaxRecvWR, attr.Caps.MaxRecvSGE = n.shared.srq, 0, 0
	}
	return attr
}

// complete brings a completion to its connection. One whose connection is gone
// is counted and dropped.
func (n *nic) complete(wc *verbs.WC) {
	id, l := wrID(wc.ID), n.loop
	if n.shared != nil && !id.send() {
		n.received(wc)
		return
	}
	switch c := l.conns.get(id); {
	case c == nil:
		l.stats.LateCompletions++
	case id.send():
		c.sent(wc, id.slot())
	default:
		c.received(wc, c.recvs.complete(id.slot()))
	}
}

// received brings a buffer of the shared queue to the connection that the
// completion names by its queue pair.
func (n *nic) received(wc *verbs.WC) {
	b := n.slab.at(wrID(wc.ID).slot())
	if b == nil || b.use != posted {
		n.loop.stats.LateCompletions++
		return
	}
	if c := n.shared.conns[wc.QPN]; c != nil {
		c.received(wc, b)
		return
	}
	n.loop.stats.LateCompletions++
	n.refill(b)
}

// refill stages a buffer for the shared queue.
func (n *nic) refill(b *Buffer) {
	if err := n.shared.stage(b); err != nil {
		n.fail(err)
	}
}

// fail ends every connection of the device, and lets in no new ones.
func (n *nic) fail(err error) {
	if n.broken == nil {
		n.end(err)
	}
}

// lost is fail for a device that went away. Neither flushes nor goodbyes are to
// be waited for, which those who were leaving already have to be told.
func (n *nic) lost(err error) {
	if !n.gone {
		n.gone = true
		n.end(err)
	}
}

func (n *nic) end(err error) {
	n.broken = first(n.broken, err)
	for c := range n.loop.conns.all() {
		if c.nic == n {
			c.leave(err)
			c.later()
		}
	}
}

// close gives everything back, in the order of verbs' package comment.
func (n *nic) close() (err error) {
	n.loop.timers.stop(&n.trimmer)
	if n.shared != nil {
		err = first(err, n.shared.srq.Close())
	}
	err = first(err, n.slab.close())
	for _, mr := range n.mrs {
		err = first(err, mr.Close())
	}
	for _, q := range n.queues {
		err = first(err, q.queue.Close())
	}
	if n.group != nil {
		err = first(err, n.loop.unwatch((*cqSource)(n)))
		err = first(err, n.group.Close())
	}
	if n.pd != nil {
		err = first(err, n.pd.Close())
	}
	return err
}

// consume makes a device with verbs.ProgressManual process all that has arrived, for
// connections whose peers have disconnected. One call in a turn is enough for all of
// them, because connection events come earlier in the turn.
func (n *nic) consume() {
	if turn := n.loop.stats.Turns + 1; n.consumed != turn {
		n.consumed = turn
		if _, err := n.group.Consume(); err != nil {
			n.fail(err)
		}
	}
}

// cqSource is the completion channel of a nic.
type cqSource nic

func (s *cqSource) ready(poller.Readiness) (work int) {
	if _, err := s.group.Consume(); err != nil {
		(*nic)(s).fail(err)
		s.loop.note(s.loop.unwatch(s))
	}
	return 0 // completions are work, events are not
}

func (s *cqSource) cause() Cause { return CauseCompletion }
