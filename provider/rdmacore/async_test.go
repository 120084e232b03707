//go:build cgo && linux

package rdmacore_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/verbs"
)

type fakeQP struct{ verbs.QP }

// A source replaces the device. Its method take() first returns the prepared errors, and
// then the prepared events.
type source struct {
	events []rdmacore.RawAsync
	errors []unix.Errno
}

func (s *source) take(raw *rdmacore.RawAsync) int32 {
	if len(s.errors) > 0 {
		err := s.errors[0]
		s.errors = s.errors[1:]
		return -int32(err)
	}
	if len(s.events) == 0 {
		return 0
	}
	*raw = s.events[0]
	s.events = s.events[1:]
	return 1
}

func newAsyncQueue(t *testing.T, s *source, objects map[uint64]verbs.QP) rdmacore.AsyncQueue {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	require.NoError(t, err)
	q, err := rdmacore.NewAsyncQueue(fd, s.take, objects)
	require.NoError(t, err)
	t.Cleanup(func() {
		q.Close()
		require.NoError(t, unix.Close(fd))
	})
	return q
}

// NextAsync repeats a call that a signal has interrupted.
func TestAsyncInterrupted(t *testing.T) {
	dead := &fakeQP{}
	s := &source{
		events: []rdmacore.RawAsync{rdmacore.Raw(verbs.AsyncQPFatal, 1)},
		errors: []unix.Errno{unix.EINTR, unix.EINTR},
	}
	q := newAsyncQueue(t, s, map[uint64]verbs.QP{1: dead})
	var ev verbs.AsyncEvent
	ok, err := q.Next(&ev)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: dead}, ev)

	s.errors = []unix.Errno{unix.EINTR}
	ok, err = q.Next(&ev)
	require.NoError(t, err)
	require.False(t, ok)

	s.errors = []unix.Errno{unix.EIO}
	_, err = q.Next(&ev)
	require.ErrorIs(t, err, unix.EIO)
}

// The event of a failed queue pair is not lost when many other events arrive.
func TestAsyncLosesNothing(t *testing.T) {
	const noisy = 5000
	dead := &fakeQP{}
	s := &source{events: []rdmacore.RawAsync{rdmacore.Raw(verbs.AsyncQPFatal, noisy)}}
	objects := map[uint64]verbs.QP{noisy: dead}
	for i := range uint64(noisy) {
		objects[i] = &fakeQP{}
		s.events = append(s.events, rdmacore.Raw(verbs.AsyncCommEst, i), rdmacore.Raw(verbs.AsyncCommEst, i))
	}
	q := newAsyncQueue(t, s, objects)
	q.Look()
	require.True(t, readable(t, q.FD()), "events wait that the device does not have any more")
	q.Forget(objects[0])
	var all []verbs.AsyncEvent
	for ev := (verbs.AsyncEvent{}); ; {
		ok, err := q.Next(&ev)
		require.NoError(t, err)
		if !ok {
			break
		}
		all = append(all, ev)
	}
	require.Len(t, all, noisy)
	require.Equal(t, verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: dead}, all[0])
	require.False(t, readable(t, q.FD()))
}
