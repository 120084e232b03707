//go:build !linux

package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/poller"
)

// A timerFD can not be made on this system: newTimerFD returns an error.
type timerFD struct {
	fd     int
	setFor WakeCause
}

func newTimerFD() (*timerFD, error) { return nil, errPlatform }

func (t *timerFD) set(time.Duration) error { return errPlatform }

func (t *timerFD) ready(poller.Readiness) (work int) { return 0 }

func (t *timerFD) wakeCause() WakeCause { return t.setFor }

func (t *timerFD) close() error { return errPlatform }
