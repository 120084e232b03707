//go:build rdmacore && cgo && linux

package rdmacore_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestLife(t *testing.T) {
	var l rdmacore.Life
	ended := 0
	end := func() error { ended++; return nil }

	require.NoError(t, l.Join())
	require.ErrorIs(t, l.End(end), verbs.ErrBusy)
	l.Leave()
	failure := errors.New("the device is stubborn")
	require.ErrorIs(t, l.End(func() error { return failure }), failure)
	require.NoError(t, l.Join(), "a failed end changes nothing")
	l.Leave()

	require.NoError(t, l.End(end))
	require.NoError(t, l.End(end))
	require.Equal(t, 1, ended)
	require.ErrorIs(t, l.Join(), verbs.ErrClosed)
}
