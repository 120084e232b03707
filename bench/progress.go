package main

import (
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"

	"github.com/rdmaloop/rdmaloop/examples/latency"
)

// A progress shows which case is measured: in a progress bar on a terminal, and
// otherwise in lines of text.
type progress struct {
	w io.Writer
	// Nil if the output is not a terminal.
	bar      *progressbar.ProgressBar
	workload string // Workload that was shown last.
	step     int
	steps    int
}

func newProgress(w io.Writer, steps int) *progress {
	p := &progress{w: w, steps: steps}
	if latency.IsTerminal(w) {
		p.bar = newBar(w, steps)
	}
	return p
}

func newBar(w io.Writer, steps int) *progressbar.ProgressBar {
	return progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(20),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetRenderBlankState(true),
	)
}

// begin shows the case that is measured next. It ignores errors of the terminal.
func (p *progress) begin(c Case) {
	p.step++
	switch {
	case p.bar != nil:
		p.bar.Describe(c.label() + " " + c.title())
		_ = p.bar.Set(p.step - 1)
	case c.Workload != p.workload:
		fmt.Fprintf(p.w, "%d/%d %s\n", p.step, p.steps, c.Workload)
	}
	p.workload = c.Workload
}

// failed prints the error of a case.
func (p *progress) failed(c Case, err error) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintf(p.w, "bench: %v: %v\n", c, err)
}

// finish removes the bar.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
	}
}
