package leak

import (
	"io"
	"time"
)

// Run is Main with its own limit, and without the exit.
func Run(m interface{ Run() int }, w io.Writer, limit time.Duration) int { return run(m, w, limit) }

// Settle returns the text that Check would report after a wait of at most limit.
func (b *Baseline) Settle(limit time.Duration) string { return b.settle(limit) }
