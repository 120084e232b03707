//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// cq implements verbs.CQ.
type cq struct {
	dev      *device
	channel  *compChannel // nil if the CQ has no channel
	cookie   uint64
	progress verbs.Progress
	users    userCount // counts the send and receive queues that use the CQ

	// events that were fetched and are not acknowledged yet
	unacked atomic.Int64
	arms    atomic.Int64 // calls of Arm whose event was not fetched yet
	broken  atomic.Bool  // true once the device has reported an overrun

	guard // lock for the fields below
	c     *C.struct_ibv_cq
	idle  uint // polls without a completion so far; see idlePolls
	args  pollArgs
	raw   []rawWC // memory for completions; reused
}

// CreateCQ creates a completion queue.
//
// Implements: ibv_create_cq(3).
func (d *device) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	q, err := d.createCQ(attr)
	if err != nil {
		return nil, operr.Wrap("create CQ", err)
	}
	return q, nil
}

func (d *device) createCQ(attr *verbs.CQAttr) (*cq, error) {
	if err := within("CQ depth", attr.Depth, 1, d.attr.MaxCQE); err != nil {
		return nil, err
	}
	if err := d.checkVector(attr.Vector, attr.Progress); err != nil {
		return nil, err
	}
	q := &cq{dev: d, cookie: attr.Cookie, progress: attr.Progress, guard: newGuard(attr.Progress)}
	if attr.Channel != nil {
		ch, ok := attr.Channel.(*compChannel)
		if !ok || ch.dev != d {
			return nil, verbs.ErrForeign
		}
		if ch.vector != attr.Vector || ch.progress != attr.Progress {
			return nil, &verbs.ParamError{Field: "vector", Value: int64(attr.Vector), Limit: int64(ch.vector), Reason: "a CQ must have the vector and progress of its channel"}
		}
		q.channel = ch
	}
	if err := addUsers(q.dependencies()); err != nil {
		return nil, err
	}
	if err := q.create(attr); err != nil {
		removeUsers(q.dependencies())
		return nil, err
	}
	return q, nil
}

func (q *cq) create(attr *verbs.CQAttr) error {
	var channel *C.struct_ibv_comp_channel
	if q.channel != nil {
		channel = q.channel.c
	}
	c, err := C.ibv_create_cq(q.dev.ctx, C.int(attr.Depth), nil, channel, C.int(attr.Vector))
	if c == nil {
		return createError("create CQ", err)
	}
	q.c = c
	q.raw = make([]rawWC, pollBatch)
	q.args = pollArgs{cq: q.address(), wcs: uintptr(unsafe.Pointer(&q.raw[0]))}
	q.dev.objects.add(q.address(), q)
	return nil
}

func (d *device) checkVector(vector int, progress verbs.Progress) error {
	if err := within("vector", vector, 0, d.attr.NumCompVectors-1); err != nil {
		return err
	}
	return within("progress", int(progress), 0, int(verbs.ProgressManual))
}

// dependencies returns the user counts of the provider and the completion channel.
func (q *cq) dependencies() []*userCount {
	if q.channel == nil {
		return []*userCount{&q.dev.provider.users}
	}
	return []*userCount{&q.dev.provider.users, &q.channel.users}
}

func (q *cq) address() uintptr { return uintptr(unsafe.Pointer(q.c)) }

// Arm requests an event for the next completion, or only for the next failed or
// solicited completion.
//
// Implements: ibv_req_notify_cq(3).
func (q *cq) Arm(solicitedOnly bool) error {
	q.enter()
	defer q.leave()
	if q.c == nil {
		return operr.Wrap("arm CQ", verbs.ErrClosed)
	}
	if q.channel == nil {
		return operr.Wrap("arm CQ", &verbs.ParamError{Field: "channel", NotNumber: true, Reason: "the CQ has no channel"})
	}
	q.arms.Add(1)
	// The event may be fetched before rl_arm returns, so it is counted first.
	q.channel.arms.Add(1)
	only := C.int(0)
	if solicitedOnly {
		only = 1
	}
	return verbsError("arm CQ", int32(C.rl_arm(C.uintptr_t(q.address()), only)))
}

// Disarm returns false: ibverbs has no call that takes back Arm.
func (q *cq) Disarm() bool { return false }

// AckEvents acknowledges n events of the CQ.
//
// Implements: ibv_ack_cq_events(3).
func (q *cq) AckEvents(n int) {
	q.enter()
	defer q.leave()
	// Acknowledging too many events would make ibv_destroy_cq wait for ever.
	if n = min(n, int(q.unacked.Load())); q.c == nil || n <= 0 {
		return
	}
	C.ibv_ack_cq_events(q.c, C.uint(n))
	q.unacked.Add(-int64(n))
}

// Depth returns how many completions the CQ can hold. After Close it is 0.
func (q *cq) Depth() int {
	q.enter()
	defer q.leave()
	if q.c == nil {
		return 0
	}
	return int(q.c.cqe)
}

// Resize changes the depth.
//
// Implements: ibv_resize_cq(3).
func (q *cq) Resize(depth int) error {
	q.enter()
	defer q.leave()
	if q.c == nil {
		return operr.Wrap("resize CQ", verbs.ErrClosed)
	}
	if err := within("CQ depth", depth, 1, q.dev.attr.MaxCQE); err != nil {
		return operr.Wrap("resize CQ", err)
	}
	return verbsError("resize CQ", int32(C.ibv_resize_cq(q.c, C.int(depth))))
}

// Close destroys the CQ. It returns ErrBusy if an event of the CQ is not acknowledged.
//
// Implements: ibv_destroy_cq(3).
func (q *cq) Close() error { return operr.Wrap("close CQ", q.users.close(q.destroy)) }

func (q *cq) destroy() error {
	q.enter()
	defer q.leave()
	if q.unacked.Load() > 0 {
		return verbs.ErrBusy
	}
	address := q.address()
	if q.channel != nil {
		// While the guard is held, no event of the CQ can be fetched.
		q.channel.enter()
		defer q.channel.leave()
		if q.unacked.Load() > 0 {
			return verbs.ErrBusy
		}
	}
	if err := verbsError("close CQ", int32(C.ibv_destroy_cq(q.c))); err != nil {
		return err
	}
	q.c = nil
	if q.channel != nil {
		// No event of this CQ can arrive any more.
		q.channel.arms.Add(-q.arms.Load())
	}
	q.dev.objects.remove(address)
	q.dev.async.dropEvents(q)
	removeUsers(q.dependencies())
	return nil
}

// ownCQ returns c as a CQ of this device. It fails if c is nil or belongs to another
// device.
func (d *device) ownCQ(c verbs.CQ, field string) (*cq, error) {
	if c == nil {
		return nil, &verbs.ParamError{Field: field, NotNumber: true, Reason: "missing"}
	}
	q, ok := c.(*cq)
	if !ok || q.dev != d {
		return nil, verbs.ErrForeign
	}
	return q, nil
}
