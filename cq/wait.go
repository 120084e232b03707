package cq

import (
	"context"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/fdwait"
	"github.com/rdmaloop/rdmaloop/internal/operr"
)

// safetyTimeout is the longest sleep of Wait. Sleeps have a limit because some devices
// lose events. Arbitrary.
const safetyTimeout = 100 * time.Millisecond

// Wait waits until a queue has completions or an error for Queue.Poll. It is for
// programs without an event loop. The owner calls Wait when no queue has completions.
// Wait calls Arm, sleeps in poll(2), and calls Consume and Rescued.
//
// The errors:
//
//   - ctx.Err(), when ctx is done. Completions stay in the queues.
//   - those of Arm and Consume.
//   - an error of poll(2) or eventfd(2).
//   - *verbs.FeatureError, on systems other than Linux.
func (g *Group) Wait(ctx context.Context) error { return g.wait(ctx, safetyTimeout) }

// wait implements Wait. The parameter longest limits each sleep.
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
