//go:build linux

package qp

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// An asyncQueue keeps an event until a caller fetches it, or until the event's object is
// closed.
func TestAsyncLosesNothing(t *testing.T) {
	a, err := newAsyncQueue()
	require.NoError(t, err)
	defer a.close()
	dead, closed := &QP{}, &QP{}
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

// TestAsyncSignalsOnce checks that an event costs a system call only if no event waits.
func TestAsyncSignalsOnce(t *testing.T) {
	a, err := newAsyncQueue()
	require.NoError(t, err)
	defer a.close()
	signals := func() uint64 {
		var count [8]byte
		if _, err := unix.Read(a.event.FD(), count[:]); err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			return 0
		}
		return binary.NativeEndian.Uint64(count[:])
	}
	var ev verbs.AsyncEvent
	for range 3 {
		gone := &QP{}
		for range 1000 {
			a.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: &QP{}})
		}
		a.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: gone})
		a.forget(gone)
		require.EqualValues(t, 1, signals())
		for range 1000 {
			ok, err := a.next(&ev)
			require.NoError(t, err)
			require.True(t, ok)
		}
		a.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: gone})
		a.forget(gone)
		require.EqualValues(t, 1, signals())
	}
}
