//go:build !linux

package reactor

import (
	"errors"
	"runtime"

	"github.com/rdmaloop/rdmaloop/verbs"
)

var errPlatform = &verbs.FeatureError{Feature: "reactor", Reason: errors.New("not on " + runtime.GOOS)}

// pinThread returns an error, because pinning a thread is implemented on Linux only.
func pinThread(int, string) error { return errPlatform }

// ConfineRuntime returns an error, because it is implemented on Linux only.
func ConfineRuntime([]int) error { return errPlatform }
