package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

const progressInterval = 100 * time.Millisecond

// A progress line shows how far the client has come, when standard error is a
// terminal.
type progress struct {
	bar    *progressbar.ProgressBar
	ticks  <-chan time.Time // when to show; nil, so never, without a terminal
	ticker *time.Ticker
	before int64 // echoes of earlier phases
}

// newProgress starts a line for a phase of so many messages; -1 if nobody knows.
func newProgress(name string, total int, lanes []*lane) *progress {
	info, err := os.Stderr.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return &progress{}
	}
	bar := progressbar.NewOptions(total,
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetDescription(name),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(),
	)
	ticker := time.NewTicker(progressInterval)
	return &progress{bar: bar, ticks: ticker.C, ticker: ticker, before: echoes(lanes)}
}

func (p *progress) show(lanes []*lane) {
	// An error of the line is no error of the measurement.
	_ = p.bar.Set64(echoes(lanes) - p.before)
}

func (p *progress) finish() {
	if p.bar != nil {
		p.ticker.Stop()
		_ = p.bar.Finish()
	}
}

func echoes(lanes []*lane) (n int64) {
	for _, l := range lanes {
		n += l.progress.Load()
	}
	return n
}
