//go:build !linux

package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/poller"
)

// An alarm exists on Linux only.
type alarm struct {
	fd     int
	reason Cause
}

func newAlarm() (*alarm, error) { return nil, errPlatform }

func (a *alarm) set(time.Duration) error { return errPlatform }

func (a *alarm) ready(poller.Readiness) (work int) { return 0 }

func (a *alarm) cause() Cause { return a.reason }

func (a *alarm) close() error { return errPlatform }
