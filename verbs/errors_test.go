package verbs_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestParamError(t *testing.T) {
	require.EqualError(t, &verbs.ParamError{Field: "retry count", Value: 9, Limit: 7}, "retry count 9: the limit is 7")
	require.EqualError(t, &verbs.ParamError{Field: "depth", Value: -1, Reason: "must be positive"}, "depth -1: must be positive")

	require.EqualError(t, &verbs.ParamError{Field: "send CQ", NotNumber: true, Reason: "missing"}, "send CQ: missing")

	err := error(&verbs.OpError{Op: "connect", Err: &verbs.ParamError{Field: "retry count", Value: 9, Limit: 7}})
	var param *verbs.ParamError
	require.ErrorAs(t, err, &param)
	require.Equal(t, "retry count", param.Field)
}

func TestFeatureError(t *testing.T) {
	err := error(&verbs.OpError{Op: "open", Err: &verbs.FeatureError{Feature: "UDP_SEGMENT", Reason: fs.ErrPermission}})
	require.EqualError(t, err, "rdma: open: UDP_SEGMENT: not supported: permission denied")
	require.ErrorIs(t, err, verbs.ErrNotSupported)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.NotErrorIs(t, err, verbs.ErrState)
}

func TestTransitionError(t *testing.T) {
	base := verbs.TransitionError{Type: verbs.QPTypeRC, From: verbs.StateInit, To: verbs.StateRTR}
	for _, c := range []struct {
		missing, extra verbs.QPAttrMask
		text           string
	}{
		{0, 0, "RC QP from INIT to RTR: no such transition"},
		{verbs.AttrAV, 0, "RC QP from INIT to RTR: attributes 0x80 missing"},
		{0, verbs.AttrQKey, "RC QP from INIT to RTR: attributes 0x40 not allowed"},
		{verbs.AttrAV, verbs.AttrQKey, "RC QP from INIT to RTR: attributes 0x80 missing, 0x40 not allowed"},
	} {
		err := base
		err.Missing, err.Extra = c.missing, c.extra
		require.EqualError(t, &err, c.text)
		require.ErrorIs(t, &verbs.OpError{Op: "modify QP", Err: &err}, verbs.ErrState)
		require.NotErrorIs(t, &err, verbs.ErrClosed)
	}
}

func TestCompletionError(t *testing.T) {
	err := &verbs.CompletionError{Status: verbs.StatusRNRRetryExcErr, QPN: 0x11}
	require.EqualError(t, err, "QP 0x000011: RNR retry count exceeded")
	err.VendorErr = 0x81
	require.EqualError(t, err, "QP 0x000011: RNR retry count exceeded (vendor error 0x81)")
}

// TestSentinelsDiffer checks that each error variable matches only itself.
func TestSentinelsDiffer(t *testing.T) {
	sentinels := []error{
		verbs.ErrClosed, verbs.ErrBusy, verbs.ErrQueueFull, verbs.ErrState, verbs.ErrForeign,
		verbs.ErrNotSupported, verbs.ErrOverrun, verbs.ErrPeerGone, verbs.ErrProtocol,
		verbs.ErrNoResources,
	}
	for i, a := range sentinels {
		for j, b := range sentinels {
			require.Equal(t, i == j, errors.Is(a, b), "%v, %v", a, b)
		}
	}
}
