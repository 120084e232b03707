package cq

import (
	"context"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/operr"
)

// safetyTimeout is the longest sleep of Wait, because some devices lose events. The
// number is arbitrary.
const safetyTimeout = 100 * time.Millisecond

// Wait sleeps until a queue has completions or an error for Queue.Poll. It is for
// programs without an event loop. Wait uses poll(2), and calls Arm, Consume and Rescued
// for the owner.
//
// The errors:
//
//   - ctx.Err(), when ctx is done. Completions stay in the queues.
//   - the errors of Arm and Consume.
//   - an error of poll(2) or eventfd(2).
//   - *verbs.FeatureError, on systems other than Linux.
func (g *Group) Wait(ctx context.Context) error { return g.wait(ctx, safetyTimeout) }

// wait is Wait with a limit for each sleep.
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
		ready, err := fdevent.Readable(g.fd, longest, ctx)
		if err != nil {
			return operr.Wrap(op, operr.Unsupported("waiting for an event", err))
		}
		events, err := g.Consume()
		if err != nil {
			return err
		}
		lost = !ready && events == 0
	}
}
