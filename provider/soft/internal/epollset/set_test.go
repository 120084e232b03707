//go:build linux

package epollset_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/epollset"
)

// A recorder is a handler that stores the ready descriptors.
type recorder struct {
	ready  []int
	events uint32
	action func() // called at the end of OnReady; may be nil
}

func (r *recorder) OnReady(fd int, events uint32) {
	r.ready, r.events = append(r.ready, fd), events
	if r.action != nil {
		r.action()
	}
}

func openSet(t *testing.T) *epollset.Set {
	s, err := epollset.New()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func newEvent(t *testing.T) int {
	fd, err := eventfd.New()
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func TestDispatch(t *testing.T) {
	s, a, b, quiet := openSet(t), newEvent(t), newEvent(t), newEvent(t)
	r := new(recorder)
	for _, fd := range []int{a, b, quiet} {
		require.NoError(t, s.Add(fd, unix.EPOLLIN, r))
	}
	require.Error(t, s.Add(a, unix.EPOLLIN, r), "the descriptor is in the set already")
	require.NoError(t, s.Dispatch())
	require.Empty(t, r.ready)
	eventfd.Signal(a)
	eventfd.Signal(b)
	s.Wait()
	require.NoError(t, s.Dispatch())
	require.ElementsMatch(t, []int{a, b}, r.ready)
	require.EqualValues(t, unix.EPOLLIN, r.events)

	r.ready = nil
	s.Remove(a)
	s.Remove(a)
	require.Nil(t, s.Handler(a))
	require.Same(t, r, s.Handler(b))
	s.Modify(b, 0)
	require.NoError(t, s.Dispatch())
	require.Empty(t, r.ready)
}

// Dispatch skips a ready descriptor that a handler has just removed.
func TestRemovedDescriptorIsNotDispatched(t *testing.T) {
	s, a, b := openSet(t), newEvent(t), newEvent(t)
	r := new(recorder)
	r.action = func() { s.Remove(a); s.Remove(b) }
	for _, fd := range []int{a, b} {
		require.NoError(t, s.Add(fd, unix.EPOLLIN, r))
		eventfd.Signal(fd)
	}
	require.NoError(t, s.Dispatch())
	require.Len(t, r.ready, 1)
}

// A new descriptor gets no events of a closed descriptor with the same number.
func TestReusedNumberIsNotDispatched(t *testing.T) {
	s, a, b := openSet(t), newEvent(t), newEvent(t)
	r, added := new(recorder), new(recorder)
	r.action = func() {
		other := a + b - r.ready[0]
		s.Remove(other)
		require.NoError(t, unix.Dup3(newEvent(t), other, unix.O_CLOEXEC))
		require.NoError(t, s.Add(other, unix.EPOLLIN, added))
	}
	for _, fd := range []int{a, b} {
		require.NoError(t, s.Add(fd, unix.EPOLLIN, r))
		eventfd.Signal(fd)
	}
	require.NoError(t, s.Dispatch())
	require.Len(t, r.ready, 1)
	require.Empty(t, added.ready)

	other := a + b - r.ready[0]
	s.Modify(other, unix.EPOLLIN)
	eventfd.Signal(other)
	s.Remove(r.ready[0])
	require.NoError(t, s.Dispatch())
	require.Equal(t, []int{other}, added.ready)
}

// A ready descriptor without a handler makes FD readable, and Dispatch ignores it.
func TestNoHandler(t *testing.T) {
	s, a := openSet(t), newEvent(t)
	require.NoError(t, s.Add(a, unix.EPOLLIN, nil))
	eventfd.Signal(a)
	s.Wait()
	require.NoError(t, s.Dispatch())
	r := new(recorder)
	s.SetHandler(a, r)
	require.NoError(t, s.Dispatch())
	require.Equal(t, []int{a}, r.ready)
}

func TestClosedSet(t *testing.T) {
	s, a := openSet(t), newEvent(t)
	require.NoError(t, s.Add(a, unix.EPOLLIN, nil))
	s.Close()
	require.Nil(t, s.Handler(a))
	require.ErrorIs(t, s.Add(a, unix.EPOLLIN, nil), unix.EBADF)
	s.Remove(a)
	s.Close()
}
