//go:build !linux

package providertest

import (
	"errors"
	"runtime"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// readable always fails. The providers work only on Linux.
func readable(int, time.Duration) (bool, error) {
	return false, &verbs.FeatureError{Feature: "waiting for a descriptor", Reason: errors.New("not on " + runtime.GOOS)}
}
