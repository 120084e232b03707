package reactor

import (
	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A nic is one device as one loop uses it: what the loop owns there. It is made
// when the loop meets the device, and ends with the loop.
type loopDevice struct {
	loop      *Loop
	dev       verbs.Device
	pd        verbs.PD
	group     *cq.Group
	queues    []*completionQueue // queues[0] stays open as long as the nic
	next      int                // index in queues at which the next poll begins
	slab      slab
	shared    *sharedRecv // the shared receive queue; nil if each connection has its own
	mrs       []verbs.MR  // memory regions of Loop.Alloc
	trimTimer timer       // timer that calls trim
	failure   error       // error for which nothing completes any more, or nil
	removed   bool        // the device was removed, and nothing completes any more

	// consumed is Stats.Turns+1 at the last call of consume; 0 if there was none.
	consumedTurn uint64
}

// nic returns the loop's side of a device.
func (l *Loop) device(dev verbs.Device) (*loopDevice, error) {
	for _, n := range l.devices {
		if n.dev == dev {
			return n, nil
		}
	}
	n := &loopDevice{loop: l, dev: dev}
	if err := n.open(); err != nil {
		return nil, firstError(err, n.close())
	}
	l.devices = append(l.devices, n)
	return n, nil
}

// home is the loop's first device, for memory that is not about a connection.
func (l *Loop) firstDevice() (*loopDevice, error) {
	if len(l.devices) > 0 {
		return l.devices[0], nil
	}
	devices, err := l.engine.provider.Devices()
	if err != nil {
		return nil, err
	}
	if len(devices) == 0 {
		return nil, &verbs.ParamError{Field: "devices", Reason: "the provider has none"}
	}
	return l.device(devices[0])
}

func (d *loopDevice) open() (err error) {
	l, cfg, attr := d.loop, d.loop.cfg, d.dev.Attr()
	if err := cfg.checkDevice(d.dev); err != nil {
		return err
	}
	if d.pd, err = d.dev.AllocPD(); err != nil {
		return err
	}
	d.slab = slab{pd: d.pd, size: cfg.MaxMessage, huge: cfg.HugePages, onGrow: d.startTrimTimer}
	d.group, err = cq.NewGroup(d.dev, &cq.Config{
		Vector:   l.index % max(1, attr.NumCompVectors),
		Progress: verbs.ProgressManual,
		Batch:    cfg.Batch,
	})
	if err != nil {
		return err
	}
	if _, err = d.openQueue(); err != nil {
		return err
	}
	if _, err = l.watch(d.group.FD(), poller.Readable, (*cqSource)(d)); err != nil {
		return err
	}
	if cfg.SRQ > 0 {
		if err := d.openShared(); err != nil {
			return err
		}
	}
	return l.watchAsync(d.dev)
}

func (d *loopDevice) openShared() error {
	size := d.loop.cfg.SRQ
	srq, err := d.pd.CreateSRQ(&verbs.SRQAttr{MaxWR: size, MaxSGE: 1, CQ: d.queues[0].cq()})
	if err != nil {
		return err
	}
	d.shared = &sharedRecv{srq: srq, conns: make(map[uint32]*Conn), wrs: make([]verbs.RecvWR, 0, sharedRecvBatch)}
	for range size {
		b, err := d.slab.get()
		if err != nil {
			return err
		}
		if err := d.shared.stage(b); err != nil {
			return err
		}
	}
	return d.shared.post()
}

// qpAttr returns the attributes of a queue pair that completes on q.
func (d *loopDevice) qpAttr(q *completionQueue) *verbs.QPInitAttr {
	cfg := d.loop.cfg
	attr := &verbs.QPInitAttr{
		Type:   verbs.QPTypeRC,
		SendCQ: q.cq(),
		RecvCQ: q.cq(),
		Caps: verbs.QPCaps{
			MaxSendWR: cfg.MaxInFlight + 1, MaxSendSGE: 1,
			MaxRecvWR: cfg.MaxInFlight, MaxRecvSGE: 1,
			MaxInline: min(cfg.MaxInline, d.dev.Attr().MaxInline),
		},
	}
	if d.shared != nil {
		attr.SRQ, attr.Caps.MaxRecvWR, attr.Caps.MaxRecvSGE = d.shared.srq, 0, 0
	}
	return attr
}

// complete brings a completion to its connection. One whose connection is gone
// is counted and dropped.
func (d *loopDevice) complete(wc *verbs.WC) {
	id, l := wrID(wc.ID), d.loop
	if d.shared != nil && !id.send() {
		d.recvShared(wc)
		return
	}
	switch c := l.conns.get(id); {
	case c == nil:
		l.stats.LateCompletions++
	case id.send():
		c.sendCompleted(wc, id.slot())
	default:
		c.recvCompleted(wc, c.recvs.complete(id.slot()))
	}
}

// received brings a buffer of the shared queue to the connection that the
// completion names by its queue pair.
func (d *loopDevice) recvShared(wc *verbs.WC) {
	b := d.slab.at(wrID(wc.ID).slot())
	if b == nil || b.state != bufferPosted {
		d.loop.stats.LateCompletions++
		return
	}
	if c := d.shared.conns[wc.QPN]; c != nil {
		c.recvCompleted(wc, b)
		return
	}
	d.loop.stats.LateCompletions++
	d.stageShared(b)
}

// refill stages a buffer for the shared queue.
func (d *loopDevice) stageShared(b *Buffer) {
	if err := d.shared.stage(b); err != nil {
		d.fail(err)
	}
}

// fail ends every connection of the device, and lets in no new ones.
func (d *loopDevice) fail(err error) {
	if d.failure == nil {
		d.closeConns(err)
	}
}

// lost is fail for a device that went away. Neither flushes nor goodbyes are to
// be waited for, which those who were leaving already have to be told.
func (d *loopDevice) failRemoved(err error) {
	if !d.removed {
		d.removed = true
		d.closeConns(err)
	}
}

func (d *loopDevice) closeConns(err error) {
	d.failure = firstError(d.failure, err)
	for c := range d.loop.conns.all() {
		if c.device == d {
			c.beginClose(err)
			c.scheduleAdvance()
		}
	}
}

// close gives everything back, in the order of verbs' package comment.
func (d *loopDevice) close() (err error) {
	d.loop.timers.stop(&d.trimTimer)
	if d.shared != nil {
		err = firstError(err, d.shared.srq.Close())
	}
	err = firstError(err, d.slab.close())
	for _, mr := range d.mrs {
		err = firstError(err, mr.Close())
	}
	for _, q := range d.queues {
		err = firstError(err, q.queue.Close())
	}
	if d.group != nil {
		err = firstError(err, d.loop.unwatch((*cqSource)(d)))
		err = firstError(err, d.group.Close())
	}
	if d.pd != nil {
		err = firstError(err, d.pd.Close())
	}
	return err
}

// consume makes a device with verbs.ProgressManual process all that has arrived, for
// connections whose peers have disconnected. One call in a turn is enough for all of
// them, because connection events come earlier in the turn.
func (d *loopDevice) consume() {
	if turn := d.loop.stats.Turns + 1; d.consumedTurn != turn {
		d.consumedTurn = turn
		if _, err := d.group.Consume(); err != nil {
			d.fail(err)
		}
	}
}

// cqSource is the completion channel of a nic.
type cqSource loopDevice

func (s *cqSource) ready(poller.Readiness) (work int) {
	if _, err := s.group.Consume(); err != nil {
		(*loopDevice)(s).fail(err)
		s.loop.recordError(s.loop.unwatch(s))
	}
	return 0 // completions are work, events are not
}

func (s *cqSource) cause() Cause { return CauseCompletion }
