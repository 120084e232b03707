package leak

import (
	"io"
	"time"
)

// Run does the same as Main with another time limit, but it returns the exit code instead
// of exiting the process.
func Run(m interface{ Run() int }, w io.Writer, limit time.Duration) int { return run(m, w, limit) }

// Settle waits until no leaked resources are left, but not longer than limit. It returns
// the text that Check would report about the remaining resources.
func (b *Baseline) Settle(limit time.Duration) string { return b.settle(limit) }
