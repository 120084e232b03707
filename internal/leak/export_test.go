package leak

import (
	"io"
	"time"
)

// Run is what Main does, with a limit of its own.
func Run(m interface{ Run() int }, w io.Writer, limit time.Duration) int { return run(m, w, limit) }

// Settle returns what Check would report, within a limit of its own.
func (b *Baseline) Settle(limit time.Duration) string { return b.settle(limit) }
