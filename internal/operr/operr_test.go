package operr_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestWrap(t *testing.T) {
	require.NoError(t, operr.Wrap("anything", nil))

	err := operr.Wrap("create QP", verbs.ErrBusy)
	require.Equal(t, &verbs.OpError{Op: "create QP", Err: verbs.ErrBusy}, err)
	require.EqualError(t, err, "rdma: create QP: still in use")
	require.ErrorIs(t, err, verbs.ErrBusy)
	require.NotErrorIs(t, err, verbs.ErrClosed)
}

// TestWrapTwice checks that an error that is wrapped twice names only the innermost
// operation.
func TestWrapTwice(t *testing.T) {
	err := operr.Wrap("create QP", verbs.ErrBusy)
	require.Same(t, err, operr.Wrap("outer", err))

	explained := fmt.Errorf("the second of three: %w", err)
	require.Equal(t, explained, operr.Wrap("outer", explained))
}

func TestCause(t *testing.T) {
	require.NoError(t, operr.Cause(nil))
	require.Equal(t, verbs.ErrBusy, operr.Cause(verbs.ErrBusy))
	require.Equal(t, verbs.ErrBusy, operr.Cause(operr.Wrap("create QP", verbs.ErrBusy)))
}

func TestUnsupported(t *testing.T) {
	require.NoError(t, operr.Unsupported("waiting", nil))
	require.Equal(t, verbs.ErrBusy, operr.Unsupported("waiting", verbs.ErrBusy))

	cause := fmt.Errorf("poll: %w", errors.ErrUnsupported)
	err := operr.Unsupported("waiting", cause)
	require.Equal(t, &verbs.FeatureError{Feature: "waiting", Reason: cause}, err)
	require.ErrorIs(t, err, verbs.ErrNotSupported)
}

func TestCheckRange(t *testing.T) {
	require.NoError(t, operr.CheckRange("loops", 1, 1, 4))
	require.NoError(t, operr.CheckRange("loops", 4, 1, 4))
	require.EqualError(t, operr.CheckRange("loops", 0, 1, 4), "loops 0: the minimum is 1")
	require.EqualError(t, operr.CheckRange("loops", 5, 1, 4), "loops 5: the limit is 4")
	require.EqualError(t, operr.CheckRange("timeout", -time.Second, 0, time.Hour), "timeout -1s: the minimum is 0s")
	require.EqualError(t, operr.CheckRange("timeout", 2*time.Hour, 0, time.Hour), "timeout 2h0m0s: the limit is 1h0m0s")
}
