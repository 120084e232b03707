package leak

import (
	"io"
	"time"
)

// Run does the same as Main with another time limit, but it returns the exit code instead
// of exiting the process.
func Run(m interface{ Run() int }, w io.Writer, limit time.Duration) int { return run(m, w, limit) }

// Settle returns the text that Check would report. It waits for leaked resources at most
// for the duration limit.
func (b *Baseline) Settle(limit time.Duration) string { return b.settle(limit) }
