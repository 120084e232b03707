package reactor

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor/internal/closemsg"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestCloseCause(t *testing.T) {
	flushed, access, retries := errors.New("flushed"), errors.New("access"), errors.New("retries")
	errViolation := errors.New("violation")
	flush := func(e *closeCause) { e.requestFailed(flushed, verbs.StatusWRFlushErr) }
	refuse := func(e *closeCause) { e.requestFailed(access, verbs.StatusRemAccessErr) }
	unanswered := func(e *closeCause) { e.requestFailed(retries, verbs.StatusRetryExcErr) }
	ended := &CloseError{Cause: ErrPeerClosed, Peer: CloseReason{Kind: CloseIdle, Code: 7, Text: "text"}}
	endedFirst := func(first error) error { return &CloseError{Cause: ErrPeerClosed, First: first, Peer: ended.Peer} }
	peer := func(e *closeCause) { e.peerErr = ended; e.setCause(ended) }
	device := func(e *closeCause) { e.deviceEvent(errors.New("device")) }
	violate := func(e *closeCause) { e.setViolation(errViolation) }
	order := func(e *closeCause) { e.setCause(nil) }
	timeout := func(e *closeCause) { e.setCause(ErrTimeout) }
	for _, c := range []struct {
		name  string
		steps []func(*closeCause)
		lost  bool
		want  error
	}{
		{"no reason", nil, false, nil},
		{"closed in order, then flushed", []func(*closeCause){order, flush}, false, nil},
		{"closed in order, but the peer disconnected first", []func(*closeCause){order, flush}, true, &CloseError{Cause: ErrPeerClosed, First: flushed}},
		{"the first reason counts", []func(*closeCause){timeout, peer}, false, ErrTimeout},
		{"peer closed", []func(*closeCause){peer, flush}, false, ended},
		{"peer closed, sends lost", []func(*closeCause){peer, flush}, true, endedFirst(flushed)},
		{"a failure", []func(*closeCause){refuse, flush, peer}, true, access},
		{"flushed only", []func(*closeCause){flush}, false, flushed},
		{"a flushed receive before the failure", []func(*closeCause){flush, refuse, flush}, true, access},
		{"no answer, then the reason", []func(*closeCause){unanswered, flush, peer}, true, endedFirst(retries)},
		{"flushed, then no answer", []func(*closeCause){flush, unanswered}, true, retries},
		{"flushed, then the reason", []func(*closeCause){flush, peer, timeout}, false, ended},
		{"a violation", []func(*closeCause){violate, refuse, peer}, false, errViolation},
		{"a violation that is found after the disconnect", []func(*closeCause){peer, violate, refuse}, false, errViolation},
		{"a violation that is found after other effects", []func(*closeCause){flush, device, violate}, true, &CloseError{Cause: errViolation, First: flushed}},
		{"a violation after Close", []func(*closeCause){order, violate}, false, nil},
		{"a violation after a failure", []func(*closeCause){refuse, violate}, false, access},
	} {
		var e closeCause
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
	for text, reason := range map[string]CloseReason{
		"closed by the peer":                                                  {Kind: CloseNormal},
		"closed by the peer (no reason given)":                                {},
		"closed by the peer (aborted)":                                        {Kind: CloseAborted},
		"closed by the peer (reason 200)":                                     {Kind: 200},
		"closed by the peer (closed, code 7)":                                 {Kind: CloseNormal, Code: 7},
		`closed by the peer (shutting down, code 4294967295: "new\nversion")`: {Kind: CloseShutdown, Code: math.MaxUint32, Text: "new\nversion"},
	} {
		e := &CloseError{Cause: ErrPeerClosed, Peer: reason}
		require.EqualError(t, e, text)
		require.Equal(t, []error{ErrPeerClosed}, e.Unwrap())
		e.First = first
		require.EqualError(t, e, text+": "+first.Error())
	}
}

// TestCloseReasonFits checks that a disconnect request has room for the longest reason.
func TestCloseReasonFits(t *testing.T) {
	require.Equal(t, cm.MaxPrivateData(cm.TCP, cm.MessageDisconnect), closemsg.MaxSize)
}

func TestCloseCauseSharesFlushError(t *testing.T) {
	var e closeCause
	flush, access := verbs.WC{Status: verbs.StatusWRFlushErr, QPN: 7}, verbs.WC{Status: verbs.StatusRemAccessErr}
	require.Equal(t, flush.Err(), e.completionError(&flush, false))
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = e.completionError(&flush, false) }))
	require.Equal(t, access.Err(), e.completionError(&access, false))
}
