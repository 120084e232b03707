package cq

import (
	"context"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/fdwait"
	"github.com/rdmaloop/rdmaloop/internal/operr"
)

// safetyTimeout is the longest sleep of Wait, because some devices lose events. It is
// arbitrary: long enough that an idle program needs almost no processor time.
const safetyTimeout = 100 * time.Millisecond

// Wait waits until a queue of the group has completions, or has failed. Queue.Poll then
// returns the completions or the error. Wait is for programs without an event loop: it
// calls Arm, sleeps in poll(2), and calls Consume and Rescued as the package comment
// describes. It is the counterpart of cm.EventChannel.Wait.
//
// The owner calls Queue.Poll on its queues first, and Wait when none of them has
// completions. Only the owner may call Wait. When ctx is done, Wait returns an error that
// matches ctx.Err(), even if a queue has completions; they stay in the queue. The other
// errors are those of Arm and Consume, and the error of eventfd(2) if the process has no
// descriptor left. On systems other than Linux Wait returns a *verbs.FeatureError.
// Source: ibv_get_cq_event(3) with a channel that blocks.
func (g *Group) Wait(ctx context.Context) error { return g.wait(ctx, safetyTimeout) }

// wait is Wait with sleeps of at most the duration in the parameter longest.
func (g *Group) wait(ctx context.Context, longest time.Duration) error {
	const op = "wait for completions"
	for lost := false; ; {
		if err := ctx.Err(); err != nil {
			return operr.Wrap(op, err)
		}
		busy, err := g.Arm()
		switch {
		case err != nil:
			return err
		case busy && lost:
			g.Rescued()
			return nil
		case busy:
			return nil
		}
		ready, err := fdwait.Readable(g.fd, longest, ctx)
		if err != nil {
			return operr.Wrap(op, err)
		}
		events, err := g.Consume()
		if err != nil {
			return err
		}
		lost = !ready && events == 0
	}
}
