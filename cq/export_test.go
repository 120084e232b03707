package cq

import (
	"context"
	"time"
)

// WaitFor is Wait with a maximum duration for each sleep.
func (g *Group) WaitFor(ctx context.Context, longest time.Duration) error {
	return g.wait(ctx, longest)
}
