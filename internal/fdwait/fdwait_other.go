//go:build !linux

package fdwait

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Readable returns an error, because it is implemented on Linux only. The error names the
// operating system.
func Readable(int, time.Duration, ...context.Context) (bool, error) {
	return false, &verbs.FeatureError{Feature: "waiting for an event", Reason: errors.New("not implemented on " + runtime.GOOS)}
}
