//go:build linux

package qp

import (
	"errors"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuardedPanics checks that guarded() passes on a panic that is no memory fault.
func TestGuardedPanics(t *testing.T) {
	cause := errors.New("a bug")
	require.PanicsWithValue(t, cause, func() { guarded(func() { panic(cause) }) })
	require.False(t, debug.SetPanicOnFault(false), "the setting is restored")
	require.True(t, guarded(func() {}))
}
