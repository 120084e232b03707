package cq

import (
	"context"
	"time"
)

// WaitFor is Wait with another limit for each sleep.
func (g *Group) WaitFor(ctx context.Context, longest time.Duration) error {
	return g.wait(ctx, longest)
}
