package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/reactor/internal/memory"
	"github.com/rdmaloop/rdmaloop/reactor/internal/slab"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A loopDevice holds the resources that one loop has on one device. It is made when the
// loop first uses the device, and closed when the loop ends.
type loopDevice struct {
	loop       *Loop
	dev        verbs.Device
	domain     *memory.Domain
	group      *cq.Group
	queues     []*completionQueue // open CQs; the first one stays open until the loop ends
	next       int                // index in queues at which the next poll begins
	pool       slab.Pool[Buffer]
	recvModes  bool            // verbs.Caps.RecvModes of the device
	sharedRecv *sharedRecv     // shared receive queue; nil if connections share no buffers
	trimTimer  timerheap.Timer // timer that calls trim
	// lastWQEReports says whether connections wait for verbs.AsyncQPLastWQE.
	lastWQEReports lastWQEReports
	failure        error // error after which no more completions are expected, or nil
	removed        bool  // true if the device was removed; failure is not nil in this case
	// result of qpAttr, a field because it would be allocated for each queue pair otherwise
	qpInit verbs.QPInitAttr

	// consumedTurn is the number of the turn that has last called consume, counted from 1, or
	// 0 before the first call.
	consumedTurn uint64
}

// device returns the loopDevice for a device. The first call for a device makes the
// loopDevice.
func (l *Loop) device(dev verbs.Device) (*loopDevice, error) {
	for _, d := range l.devices {
		if d.dev == dev {
			return d, nil
		}
	}
	d := &loopDevice{loop: l, dev: dev, recvModes: dev.Caps().RecvModes}
	if err := d.open(); err != nil {
		return nil, firstError(err, d.close())
	}
	l.devices = append(l.devices, d)
	return d, nil
}

// open makes the resources of the loopDevice. If it fails, the caller must call close.
func (d *loopDevice) open() (err error) {
	l, cfg, attr := d.loop, d.loop.cfg, d.dev.Attr()
	if err := cfg.checkDevice(d.dev); err != nil {
		return err
	}
	if d.domain, err = l.engine.domains.Of(d.dev); err != nil {
		return err
	}
	large := verbs.AccessLocalWrite
	if cfg.MaxLongMessage > 0 {
		large |= verbs.AccessRemoteRead
	}
	d.pool.Init(slab.Config[Buffer]{
		PD: d.pd(), Size: cfg.MaxMessage, Access: verbs.AccessLocalWrite, LargeAccess: large,
		Huge: cfg.Memory.HugePages, Limit: 1 << bufferBits, OnGrow: d.startTrimTimer,
		Attach: l.attachBuffer, Detach: detachBuffer,
	})
	d.group, err = cq.NewGroup(d.dev, &cq.Config{
		Vector:   l.index % max(1, attr.NumCompVectors),
		Progress: verbs.ProgressManual,
		Batch:    cfg.Limits.CompletionBudget,
		Inline:   true,
	})
	if err != nil {
		return err
	}
	d.sharedRecv = newSharedRecv(d)
	if _, err = d.openQueue(); err != nil {
		return err
	}
	if err = d.watchChannel(); err != nil {
		return err
	}
	return l.watchAsync(d.dev)
}

// watchChannel makes the events of the completion channel end the sleeps of the loop. If
// an engine runs the loop, one device may become Loop.sleeper. The poller watches the
// channels of the other devices.
func (d *loopDevice) watchChannel() (err error) {
	l, joined := d.loop, false
	if l.sleeper == nil && l.timerFD == nil {
		if joined, err = d.group.Join(l.poller.FD()); err != nil {
			return err
		}
	}
	if joined {
		l.sleeper = d
		return nil
	}
	_, err = l.watch(d.group.FD(), poller.Readable, (*cqSource)(d))
	return err
}

// sleep waits for completions or for the loop's poller, until the timeout has passed.
// The results are those of cq.Group.Sleep. After an error the loop sleeps in its poller.
func (d *loopDevice) sleep(timeout time.Duration) (completions, input bool) {
	completions, input, err := d.group.Sleep(timeout)
	if err != nil {
		d.loop.sleeper = nil
		d.fail(err)
	}
	return completions, input
}

// pd returns the protection domain of the engine on the device.
func (d *loopDevice) pd() verbs.PD { return d.domain.PD }

// qpAttr returns the attributes of the queue pair of a connection that has reserved places.
func (d *loopDevice) qpAttr(c *Conn) *verbs.QPInitAttr {
	cfg := d.loop.cfg
	attr := &d.qpInit
	*attr = verbs.QPInitAttr{
		Type:     verbs.QPTypeRC,
		SendCQ:   c.queue.cq(),
		RecvCQ:   c.queue.cq(),
		RecvTime: c.wantsTime,
		Caps: verbs.QPCaps{
			MaxSendWR: cfg.MaxInFlight + 1 + cfg.longSlots(), MaxSendSGE: cfg.maxPieces(d.dev),
			MaxRecvWR: cfg.ownRecvBuffers(), MaxRecvSGE: 1,
			MaxInline: min(cfg.Transport.MaxInline, d.dev.Attr().MaxInline),
		},
	}
	if c.sharesRecv() {
		attr.SRQ, attr.Caps.MaxRecvWR, attr.Caps.MaxRecvSGE = d.sharedRecv.srq, 0, 0
	}
	return attr
}

// fail ends every connection of the device with err. New connections on the device fail
// too.
func (d *loopDevice) fail(err error) {
	if d.failure == nil {
		d.closeConns(err)
	}
}

// failRemoved ends every connection of a removed device with err. Flushed completions
// and cm.Disconnected may never come, so the connections do not wait for them.
func (d *loopDevice) failRemoved(err error) {
	if !d.removed {
		d.removed = true
		d.closeConns(err)
	}
}

// closeConns begins to close all connections of the device, and records its failure.
func (d *loopDevice) closeConns(err error) {
	d.failure = firstError(d.failure, err)
	d.closeConnsOf(err, func(*Conn) bool { return true })
}

// closeConnsOf begins to close the connections of the device for which affected returns
// true.
func (d *loopDevice) closeConnsOf(err error, affected func(*Conn) bool) {
	for c := range d.loop.conns.all() {
		if c.device == d && affected(c) {
			c.endWith(err)
			c.scheduleStep()
		}
	}
}

// close releases the resources, in the order that the comment of package verbs requires.
func (d *loopDevice) close() (err error) {
	d.loop.timers.Stop(&d.trimTimer)
	if d.sharedRecv != nil {
		err = firstError(err, d.sharedRecv.close())
	}
	err = firstError(err, d.pool.Close())
	for _, q := range d.queues {
		err = firstError(err, q.queue.Close())
	}
	d.queues = nil
	if d.group != nil {
		err = firstError(err, d.loop.unwatch((*cqSource)(d)))
		if d.loop.sleeper == d {
			d.loop.sleeper = nil
		}
		err = firstError(err, d.group.Close())
	}
	return err
}

// lease implements Conn.Lease.
func (d *loopDevice) lease(n int) (*Buffer, error) {
	err := operr.CheckRange("buffer size", n, 0, maxLease)
	var b *Buffer
	if err == nil {
		b, err = d.leaseSize(n)
	}
	if err != nil {
		return nil, operr.Wrap("lease buffer", err)
	}
	b.length = 0
	return b, nil
}

// smallBuffer returns a free buffer of Config.MaxMessage bytes, in state bufferLeased.
func (d *loopDevice) smallBuffer() (*Buffer, error) { return leased(d.pool.Get()) }

// leaseSize returns a buffer of at least n bytes, in state bufferLeased. The parameter n is
// at most maxLease.
func (d *loopDevice) leaseSize(n int) (*Buffer, error) { return leased(d.pool.GetSize(n)) }

// maxLease is the size in bytes of the largest buffer that can be leased: 1 GiB.
const maxLease = 1 << 30

// copyOf returns a copy of the message in b, in a buffer in state bufferLeased.
func (d *loopDevice) copyOf(b *Buffer) (*Buffer, error) {
	to, err := d.smallBuffer()
	if err != nil {
		return nil, err
	}
	to.length = copy(to.memory, b.Bytes())
	to.imm, to.flags, to.opcode, to.time = b.imm, b.flags, b.opcode, b.time
	return to, nil
}

// consume makes a device with verbs.ProgressManual process everything that has arrived.
// Then the completions can be polled. After the first call in a turn, further calls do
// nothing.
func (d *loopDevice) consume() {
	if turn := d.loop.stats.Turns + 1; d.consumedTurn != turn {
		d.consumedTurn = turn
		if _, err := d.group.Consume(); err != nil {
			d.fail(err)
		}
	}
}

// A cqSource is a loopDevice with the methods of the interface source. It handles the
// events of the completion channel.
type cqSource loopDevice

func (s *cqSource) ready(poller.Readiness) (work int) {
	if _, err := s.group.Consume(); err != nil {
		(*loopDevice)(s).fail(err)
		s.loop.recordError(s.loop.unwatch(s))
	}
	// The event does not count as work. The next turn polls the completions, which count as
	// work.
	return 0
}

func (s *cqSource) wakeCause() wakeCause { return wakeByCompletion }

const (
	// trimEvery is the time between two rounds of trim(). A round releases memory that
	// was not used since the previous round. Memory is released about 40 s after its last
	// use at the latest. The number is arbitrary.
	trimEvery = 20 * time.Second
	// trimPause is the time between two steps of trim(). With steps of up to 1 ms, trim()
	// uses at most 1 ms of every 5 ms. The number is arbitrary.
	trimPause = 4 * time.Millisecond
)

// startTrimTimer makes the next round of trim() begin after trimEvery. If the timer is
// already running, startTrimTimer does nothing.
func (d *loopDevice) startTrimTimer() {
	if !d.trimTimer.Running() {
		d.trimTimer.Owner = timerheap.Func(d.trim)
		d.loop.setTimer(&d.trimTimer, trimEvery)
	}
}

// trim closes an unused shared receive queue. It releases unused memory, one step in
// each call. After the last step it closes unused completion queues. If work is left, it
// sets its timer again.
func (d *loopDevice) trim() {
	if d.sharedRecv != nil {
		d.loop.recordError(d.sharedRecv.closeUnused())
	}
	if d.trimBuffers() {
		d.loop.setTimer(&d.trimTimer, trimPause)
		return
	}
	if d.trimQueues() || d.pool.Bytes() > 0 {
		d.startTrimTimer()
	}
}

// trimBuffers releases unused memory of the pool. It reports whether this round has
// further steps.
func (d *loopDevice) trimBuffers() (more bool) {
	more, err := d.pool.Trim()
	d.loop.recordError(err)
	if more {
		return true
	}
	for c := range d.loop.conns.all() {
		if c.device == d && c.long != nil {
			c.long.shown.trim()
		}
	}
	return false
}
