package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Time between two updates of the progress bar.
const progressInterval = 100 * time.Millisecond

// A progress shows a progress bar if the standard error is a terminal.
type progress struct {
	bar *progressbar.ProgressBar
	// channel that receives a value when the bar is to be drawn; nil without a terminal
	ticks  <-chan time.Time
	ticker *time.Ticker
	before int64 // echoes in earlier phases
}

// newProgress starts a progress bar. The total is -1 if it is unknown.
func newProgress(name string, total int, results []*loopResult) *progress {
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
	return &progress{bar: bar, ticks: ticker.C, ticker: ticker, before: echoes(results)}
}

func (p *progress) show(results []*loopResult) {
	// An error of the progress bar must not stop the measurement.
	_ = p.bar.Set64(echoes(results) - p.before)
}

func (p *progress) finish() {
	if p.bar != nil {
		p.ticker.Stop()
		_ = p.bar.Finish()
	}
}

func echoes(results []*loopResult) (n int64) {
	for _, r := range results {
		n += r.progress.Load()
	}
	return n
}
