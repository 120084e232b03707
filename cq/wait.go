package cq

import (
	"context"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/fdwait"
	"github.com/rdmaloop/rdmaloop/internal/operr"
)

// safetyTimeout is the longest sleep of Wait. Sleeps have a limit because some devices
// lose events. The value is arbitrary. It is so long that an idle program needs almost no
// processor time.
const safetyTimeout = 100 * time.Millisecond

// Wait waits until Queue.Poll of a queue has something to return: completions or an
// error. It is for programs without an event loop. The owner calls it when no queue has
// completions. Wait calls Arm, sleeps in poll(2), and calls Consume and Rescued.
//
// The errors:
//
//   - ctx.Err(), when ctx is done. Completions stay in the queues.
//   - those of Arm and Consume.
//   - an error of poll(2), or of eventfd(2). While Wait sleeps, an eventfd tells it that
//     ctx is done.
//   - *verbs.FeatureError, on systems other than Linux.
func (g *Group) Wait(ctx context.Context) error { return g.wait(ctx, safetyTimeout) }

// wait is Wait with another limit for each sleep: the parameter longest.
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
