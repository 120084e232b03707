//go:build cgo && linux

package rdmacore

// #cgo noescape rl_next_cq_event
// #cgo nocallback rl_next_cq_event
// #include "shim.h"
import "C"

import (
	"errors"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// compChannel implements verbs.CompChannel.
type compChannel struct {
	dev      *device
	vector   int
	progress verbs.Progress
	users    userCount // counts the CQs of the channel

	// arms counts calls of Arm whose event was not fetched yet, for all CQs together.
	arms atomic.Int64

	guard // lock for the fields drained and c
	// drained is true if the previous call of Next returned an event, and the events of all
	// calls of Arm were then fetched. The next call of Next needs no system call, unless Arm
	// was called in between.
	drained bool
	c       *C.struct_ibv_comp_channel
	fd      int
}

// CreateCompChannel creates a completion channel.
//
// Implements: ibv_create_comp_channel(3).
func (d *device) CreateCompChannel(attr *verbs.CompChannelAttr) (verbs.CompChannel, error) {
	if attr == nil {
		attr = &verbs.CompChannelAttr{}
	}
	ch, err := d.createCompChannel(attr)
	if err != nil {
		return nil, operr.Wrap("create completion channel", err)
	}
	return ch, nil
}

func (d *device) createCompChannel(attr *verbs.CompChannelAttr) (*compChannel, error) {
	if err := d.checkVector(attr.Vector, attr.Progress); err != nil {
		return nil, err
	}
	if err := d.provider.users.add(); err != nil {
		return nil, err
	}
	c, err := C.ibv_create_comp_channel(d.ctx)
	if c == nil {
		d.provider.users.remove()
		return nil, createError("create completion channel", err)
	}
	ch := &compChannel{dev: d, vector: attr.Vector, progress: attr.Progress, c: c, fd: int(c.fd), guard: newGuard(attr.Progress)}
	if err := verbsError("create completion channel", int32(C.rl_nonblock(c.fd))); err != nil {
		_ = ch.Close()
		return nil, err
	}
	return ch, nil
}

func (ch *compChannel) FD() int { return ch.fd }

// Next fetches one event. Callers repeat the call until Next returns false.
//
// Implements: ibv_get_cq_event(3).
func (ch *compChannel) Next() (cookie uint64, ok bool, err error) {
	ch.enter()
	defer ch.leave()
	if ch.c == nil {
		return 0, false, operr.Wrap("next completion event", verbs.ErrClosed)
	}
	// The system call is skipped only once. A device may send events that nobody
	// expects, and the next call must find them.
	drained := ch.drained && ch.arms.Load() <= 0
	if ch.drained = false; drained {
		return 0, false, nil
	}
	var address C.uint64_t
	n := C.rl_next_cq_event(C.uintptr_t(uintptr(unsafe.Pointer(ch.c))), &address)
	if n <= 0 {
		return 0, false, verbsError("next completion event", int32(n))
	}
	// The CQ is still in the table. cq.destroy removes it while it holds the channel's
	// guard.
	q := ch.dev.objects.find(uintptr(address)).(*cq)
	q.unacked.Add(1)
	q.arms.Add(-1)
	ch.drained = ch.arms.Add(-1) <= 0
	return q.cookie, true, nil
}

// errAutoProgress is the reason of the error of Join.
var errAutoProgress = errors.New("the device moves the data while the owner sleeps")

// Join fails.
func (ch *compChannel) Join(int) error {
	return operr.Wrap("join completion channel", ch.users.whileOpen(func() error {
		return &verbs.FeatureError{Feature: "Join", Reason: errAutoProgress}
	}))
}

// Sleep fails, because Join does.
func (ch *compChannel) Sleep(time.Duration) (work, input bool, err error) {
	return false, false, operr.Wrap("sleep in completion channel", ch.users.whileOpen(func() error { return verbs.ErrState }))
}

// Close destroys the channel.
//
// Implements: ibv_destroy_comp_channel(3).
func (ch *compChannel) Close() error {
	return operr.Wrap("close completion channel", ch.users.close(func() error {
		ch.enter()
		defer ch.leave()
		if err := verbsError("close completion channel", int32(C.ibv_destroy_comp_channel(ch.c))); err != nil {
			return err
		}
		ch.c = nil
		ch.dev.provider.users.remove()
		return nil
	}))
}
