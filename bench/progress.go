package main

import (
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
)

// A progress line says what is being measured, and how much is left. Where there is
// no terminal it is a line for each workload.
type progress struct {
	w        io.Writer
	bar      *progressbar.ProgressBar // nil without a terminal
	workload string                   // the latest
	step     int
	steps    int
}

func newProgress(w io.Writer, steps int) *progress {
	p := &progress{w: w, steps: steps}
	if isTerminal(w) {
		p.bar = newBar(w, steps)
	}
	return p
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
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

// begin shows a case before it is measured. A line that can not be written is no
// failure of the measurement.
func (p *progress) begin(c Case) {
	p.step++
	switch {
	case p.bar != nil:
		p.bar.Describe(c.who() + " " + c.title())
		_ = p.bar.Set(p.step - 1)
	case c.Workload != p.workload:
		fmt.Fprintf(p.w, "%d/%d %s\n", p.step, p.steps, c.Workload)
	}
	p.workload = c.Workload
}

// failed reports a case that could not be measured, above the line.
func (p *progress) failed(c Case, err error) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintf(p.w, "bench: %v: %v\n", c, err)
}

// finish takes the line away.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
	}
}
