//go:build !linux

package providertest

import (
	"errors"
	"runtime"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// readable is implemented on Linux only, like the providers.
func readable(int, time.Duration) (bool, error) {
	return false, &verbs.FeatureError{Feature: "waiting for a descriptor", Reason: errors.New("not on " + runtime.GOOS)}
}
