package cq

import (
	"context"
	"time"
)

// WaitFor is Wait with sleeps of at most the duration in the parameter longest.
func (g *Group) WaitFor(ctx context.Context, longest time.Duration) error {
	return g.wait(ctx, longest)
}
