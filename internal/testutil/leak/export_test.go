package leak

import (
	"io"
	"time"
)

// Run does the same as Main with another time limit. It returns the exit code and does
// not exit the process.
func Run(m interface{ Run() int }, w io.Writer, limit time.Duration) int { return run(m, w, limit) }

// Settle waits at most the duration limit, and returns the text that Check would report.
func (b *Baseline) Settle(limit time.Duration) string { return b.settle(limit) }
