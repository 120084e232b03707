package leak

import (
	"io"
	"time"
)

// Run is Main with another time limit. It returns the exit code.
func Run(m interface{ Run() int }, w io.Writer, limit time.Duration) int { return run(m, w, limit) }

// Settle is Check with another time limit. It returns a list of what is left.
func (b *Baseline) Settle(limit time.Duration) string { return b.settle(limit) }
