//go:build !linux

package providertest

import (
	"errors"
	"runtime"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// readable always fails on this system. It is needed on Linux only, because the
// providers work on Linux only.
func readable(int, time.Duration) (bool, error) {
	return false, &verbs.FeatureError{Feature: "waiting for a descriptor", Reason: errors.New("not on " + runtime.GOOS)}
}
