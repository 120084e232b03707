//go:build !unix

package memory

import (
	"errors"
	"runtime"

	"github.com/rdmaloop/rdmaloop/verbs"
)

var errPlatform = &verbs.FeatureError{Feature: "reactor", Reason: errors.New("not on " + runtime.GOOS)}

// Map returns an error.
func Map(int) ([]byte, error) { return nil, errPlatform }

// MapFile returns an error.
func MapFile(int, int64, int, bool) ([]byte, error) { return nil, errPlatform }

// Unmap returns an error.
func Unmap([]byte) error { return errPlatform }
