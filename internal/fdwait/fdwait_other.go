//go:build !linux

package fdwait

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Readable returns an error that names the operating system, because it is implemented on
// Linux only.
func Readable(int, time.Duration, ...context.Context) (bool, error) {
	return false, &verbs.FeatureError{Feature: "waiting for an event", Reason: errors.New("not implemented on " + runtime.GOOS)}
}
