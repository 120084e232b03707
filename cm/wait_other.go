//go:build !linux

package cm

import (
	"context"
	"errors"
	"runtime"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// awaitReadable returns an error that names the operating system, because it is
// implemented on Linux only.
func awaitReadable(int, ...context.Context) error {
	return &verbs.FeatureError{Feature: "waiting for an event", Reason: errors.New("not implemented on " + runtime.GOOS)}
}
