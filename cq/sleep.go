package cq

import (
	"errors"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Disarm cancels Arm. Completions then raise no events until the next Arm. If the device can
// not do that (verbs.CQ.Disarm), the CQs stay armed, and their events still come. The owner
// calls Disarm after a sleep, or if it does not sleep after Arm.
func (g *Group) Disarm() {
	for _, q := range g.queues {
		if q.armed && q.cq.Disarm() {
			q.armed = false
		}
	}
}

// Join makes Sleep wait for input on fd too, and reports whether it does. It returns
// false without an error if the device can not do that (verbs.CompChannel). After Join, the
// owner waits only in Sleep, and neither for FD nor in Wait. The caller closes fd after the
// Group. The error is a *verbs.OpError.
func (g *Group) Join(fd int) (joined bool, err error) {
	err = g.channel.Join(fd)
	if errors.Is(err, verbs.ErrNotSupported) {
		return false, nil
	}
	return err == nil, operr.Wrap("join completion channel", err)
}

// Sleep waits until a CQ has an event, the descriptor that was passed to Join is
// readable, or the timeout has passed. A negative timeout means no limit, and zero means
// no waiting. If the result work is true, the owner calls Disarm, which also drops the
// events, instead of Consume, and polls the queues. If the result input is true, the
// descriptor is readable. The error is a *verbs.OpError; it matches verbs.ErrState before
// Join.
func (g *Group) Sleep(timeout time.Duration) (work, input bool, err error) {
	work, input, err = g.channel.Sleep(timeout)
	return work, input, operr.Wrap("sleep in completion channel", err)
}
