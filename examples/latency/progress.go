package latency

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// IsTerminal reports whether w is a terminal. A program shows a progress bar only there.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// ShowProgress shows a progress bar with a name on w until stop is called. If w is not a
// terminal, it shows nothing. The parameter total is the number at which the work is
// complete, or -1 if it is not known. ShowProgress calls count for the present number, on
// another goroutine, ten times a second. The first call counts as zero.
func ShowProgress(w io.Writer, name string, total int, count func() uint64) (stop func()) {
	if !IsTerminal(w) {
		return func() {}
	}
	bar := progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(name),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(),
	)
	before := count()
	ticker, done, ended := time.NewTicker(100*time.Millisecond), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		// Errors of the terminal must not stop the work.
		for {
			select {
			case <-ticker.C:
				_ = bar.Set64(int64(count() - before))
			case <-done:
				_ = bar.Finish()
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
	}
}
