package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestCloseReason(t *testing.T) {
	flushed, access, retries := errors.New("flushed"), errors.New("access"), errors.New("retries")
	errViolation := errors.New("violation")
	flush := func(e *closeReason) { e.requestFailed(flushed, verbs.StatusWRFlushErr) }
	refuse := func(e *closeReason) { e.requestFailed(access, verbs.StatusRemAccessErr) }
	unanswered := func(e *closeReason) { e.requestFailed(retries, verbs.StatusRetryExcErr) }
	peer := func(e *closeReason) { e.peerErr = ErrPeerClosed; e.setCause(ErrPeerClosed) }
	device := func(e *closeReason) { e.deviceEvent(errors.New("device")) }
	violate := func(e *closeReason) { e.setViolation(errViolation) }
	order := func(e *closeReason) { e.setCause(nil) }
	timeout := func(e *closeReason) { e.setCause(ErrTimeout) }
	for _, c := range []struct {
		name  string
		steps []func(*closeReason)
		lost  bool
		want  error
	}{
		{"no reason", nil, false, nil},
		{"closed in order, then flushed", []func(*closeReason){order, flush}, false, nil},
		{"closed in order, but the peer disconnected first", []func(*closeReason){order, flush}, true, &CloseError{ErrPeerClosed, flushed}},
		{"the first reason counts", []func(*closeReason){timeout, peer}, false, ErrTimeout},
		{"peer closed", []func(*closeReason){peer, flush}, false, ErrPeerClosed},
		{"peer closed, sends lost", []func(*closeReason){peer, flush}, true, &CloseError{ErrPeerClosed, flushed}},
		{"a failure", []func(*closeReason){refuse, flush, peer}, true, access},
		{"flushed only", []func(*closeReason){flush}, false, flushed},
		{"a flushed receive before the failure", []func(*closeReason){flush, refuse, flush}, true, access},
		{"no answer, then the reason", []func(*closeReason){unanswered, flush, peer}, true, &CloseError{ErrPeerClosed, retries}},
		{"flushed, then no answer", []func(*closeReason){flush, unanswered}, true, retries},
		{"flushed, then the reason", []func(*closeReason){flush, peer, timeout}, false, ErrPeerClosed},
		{"a violation", []func(*closeReason){violate, refuse, peer}, false, errViolation},
		{"a violation that is found after the disconnect", []func(*closeReason){peer, violate, refuse}, false, errViolation},
		{"a violation that is found after other effects", []func(*closeReason){flush, device, violate}, true, &CloseError{errViolation, flushed}},
		{"a violation after Close", []func(*closeReason){order, violate}, false, nil},
		{"a violation after a failure", []func(*closeReason){refuse, violate}, false, access},
	} {
		var e closeReason
		for _, step := range c.steps {
			step(&e)
		}
		require.Equal(t, c.want, e.closeError(c.lost), c.name)
	}
}

// TestCloseErrorText checks that the text of an error after the end of the peer's process does
// not say that retries were used up.
func TestCloseErrorText(t *testing.T) {
	first := &verbs.CompletionError{Status: verbs.StatusRetryExcErr, QPN: 7}
	gone := &CloseError{Cause: verbs.ErrPeerGone, First: first}
	require.EqualError(t, gone, "peer gone")
	require.ErrorIs(t, gone, first)
	require.EqualError(t, &CloseError{Cause: ErrPeerClosed, First: first}, ErrPeerClosed.Error()+": "+first.Error())
}

func TestCloseReasonSharesFlushError(t *testing.T) {
	var e closeReason
	flush, access := verbs.WC{Status: verbs.StatusWRFlushErr, QPN: 7}, verbs.WC{Status: verbs.StatusRemAccessErr}
	require.Equal(t, flush.Err(), e.completionError(&flush, false))
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = e.completionError(&flush, false) }))
	require.Equal(t, access.Err(), e.completionError(&access, false))
}
