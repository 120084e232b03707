//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// An asyncQueue keeps an event until a caller fetches it, or until the event's object is
// closed.
func TestAsyncLosesNothing(t *testing.T) {
	a, err := newAsyncQueue()
	require.NoError(t, err)
	defer a.close()
	dead, closed := &qp{}, &qp{}
	a.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: dead})
	a.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: closed})
	for range 5000 {
		gone := &srq{}
		a.push(verbs.AsyncEvent{Type: verbs.AsyncSRQLimit, SRQ: gone})
		a.push(verbs.AsyncEvent{Type: verbs.AsyncQPLastWQE, QP: dead})
		a.forget(gone)
	}
	a.forget(closed)
	var ev verbs.AsyncEvent
	for _, want := range []verbs.AsyncEventType{verbs.AsyncQPFatal, verbs.AsyncQPLastWQE} {
		ok, err := a.next(&ev)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, verbs.AsyncEvent{Type: want, QP: dead}, ev)
	}
	ok, err := a.next(&ev)
	require.NoError(t, err)
	require.False(t, ok)
}
