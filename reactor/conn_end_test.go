package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestEnding(t *testing.T) {
	flushed, access, retries := errors.New("flushed"), errors.New("access"), errors.New("retries")
	flush := func(e *ending) { e.failed(flushed, verbs.StatusWRFlushErr) }
	refuse := func(e *ending) { e.failed(access, verbs.StatusRemAccessErr) }
	unanswered := func(e *ending) { e.failed(retries, verbs.StatusRetryExcErr) }
	peer := func(e *ending) { e.setCause(ErrPeerClosed) }
	order := func(e *ending) { e.setCause(nil) }
	deadline := func(e *ending) { e.setCause(ErrDeadline) }
	for _, c := range []struct {
		name  string
		steps []func(*ending)
		lost  bool
		want  error
	}{
		{"nothing", nil, false, nil},
		{"closed in order, then flushed", []func(*ending){order, flush}, false, nil},
		{"closed in order, but the peer was quicker", []func(*ending){order, flush}, true, &CloseError{ErrPeerClosed, flushed}},
		{"the first reason counts", []func(*ending){deadline, peer}, false, ErrDeadline},
		{"peer closed", []func(*ending){peer, flush}, false, ErrPeerClosed},
		{"peer closed, sends lost", []func(*ending){peer, flush}, true, &CloseError{ErrPeerClosed, flushed}},
		{"a failure", []func(*ending){refuse, flush, peer}, true, access},
		{"flushed only", []func(*ending){flush}, false, flushed},
		{"a flushed receive before the failure", []func(*ending){flush, refuse, flush}, true, access},
		{"no answer, and then why", []func(*ending){unanswered, flush, peer}, true, &CloseError{ErrPeerClosed, retries}},
		{"flushed, and then no answer", []func(*ending){flush, unanswered}, true, retries},
		{"flushed, and then why", []func(*ending){flush, peer, deadline}, false, ErrPeerClosed},
	} {
		var e ending
		for _, step := range c.steps {
			step(&e)
		}
		require.Equal(t, c.want, e.reason(c.lost), c.name)
	}
}

func TestEndingSharesTheErrorOfFlushes(t *testing.T) {
	var e ending
	flush, access := verbs.WC{Status: verbs.StatusWRFlushErr, QPN: 7}, verbs.WC{Status: verbs.StatusRemAccessErr}
	require.Equal(t, flush.Err(), e.completionError(&flush))
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = e.completionError(&flush) }))
	require.Equal(t, access.Err(), e.completionError(&access))
}
