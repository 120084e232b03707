//go:build linux

package resource_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestWrap(t *testing.T) {
	require.NoError(t, resource.Wrap(nil))
	require.Equal(t, unix.EPERM, resource.Wrap(unix.EPERM))
	err := resource.Wrap(unix.ENOMEM)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	require.ErrorIs(t, err, unix.ENOMEM)
	require.Equal(t, err, resource.Wrap(err), "an error is wrapped only once")
}

// Retry calls fn again only if no descriptor was free and makeRoom has made room.
func TestRetry(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   error
		room  bool
		calls int
	}{
		{"no error", nil, true, 1},
		{"another error", errors.New("other"), true, 1},
		{"nothing to close", unix.EMFILE, false, 1},
		{"process limit", unix.EMFILE, true, 2},
		{"system limit", unix.ENFILE, true, 2},
	} {
		calls := 0
		err := resource.Retry(func() error { calls++; return test.err }, func() bool { return test.room })
		require.Equal(t, test.err, err, test.name)
		require.Equal(t, test.calls, calls, test.name)
	}
}
