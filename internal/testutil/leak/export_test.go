package leak

import (
	"io"
	"time"
)

// Run is Main with another time limit. It returns the exit code instead of exiting.
func Run(m interface{ Run() int }, w io.Writer, limit time.Duration) int { return run(m, w, limit) }

// Settle waits until the time limit has passed or no leaked resources are left. It
// returns what Check would report.
func (b *Baseline) Settle(limit time.Duration) string { return b.settle(limit) }
