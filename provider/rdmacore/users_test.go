//go:build cgo && linux

package rdmacore_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestUsers(t *testing.T) {
	var u rdmacore.Users
	closed := 0
	close := func() error { closed++; return nil }

	require.NoError(t, u.Add())
	require.ErrorIs(t, u.Close(close), verbs.ErrBusy)
	u.Remove()
	failure := errors.New("the device refused")
	require.ErrorIs(t, u.Close(func() error { return failure }), failure)
	require.NoError(t, u.Add(), "a failed Close changes nothing")
	u.Remove()

	require.NoError(t, u.Close(close))
	require.NoError(t, u.Close(close))
	require.Equal(t, 1, closed)
	require.ErrorIs(t, u.Add(), verbs.ErrClosed)
}
