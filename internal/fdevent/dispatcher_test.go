//go:build linux

package fdevent_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
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

func openDispatcher(t *testing.T) *fdevent.Dispatcher {
	d, err := fdevent.NewDispatcher()
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// dispatch calls Dispatch without waiting.
func dispatch(t *testing.T, d *fdevent.Dispatcher) {
	_, err := d.Dispatch(0)
	require.NoError(t, err)
}

func TestDispatch(t *testing.T) {
	d, first, second, quiet := openDispatcher(t), newEvent(t), newEvent(t), newEvent(t)
	a, b := first.FD(), second.FD()
	r := new(recorder)
	for _, fd := range []int{a, b, quiet.FD()} {
		require.NoError(t, d.Add(fd, unix.EPOLLIN, r))
	}
	require.ErrorIs(t, d.Add(a, unix.EPOLLIN, r), unix.EEXIST)
	dispatch(t, d)
	require.Empty(t, r.ready)
	first.Signal()
	second.Signal()
	d.Await()
	dispatch(t, d)
	require.ElementsMatch(t, []int{a, b}, r.ready)
	require.EqualValues(t, unix.EPOLLIN, r.events)

	r.ready = nil
	d.Remove(a)
	d.Remove(a)
	require.Nil(t, d.Handler(a))
	require.Same(t, r, d.Handler(b))
	d.Modify(b, 0)
	dispatch(t, d)
	require.Empty(t, r.ready)
}

// Dispatch skips a ready descriptor that a handler has just removed.
func TestRemovedDescriptorIsNotDispatched(t *testing.T) {
	d, events := openDispatcher(t), []*fdevent.Event{newEvent(t), newEvent(t)}
	r := new(recorder)
	r.action = func() {
		for _, e := range events {
			d.Remove(e.FD())
		}
	}
	for _, e := range events {
		require.NoError(t, d.Add(e.FD(), unix.EPOLLIN, r))
		e.Signal()
	}
	dispatch(t, d)
	require.Len(t, r.ready, 1)
}

// A new descriptor gets no events of a closed descriptor with the same number. Neither
// does the handler of the closed one. The contract of Add is kept in one case, and broken
// in the other.
func TestReusedNumberIsNotDispatched(t *testing.T) {
	for name, remove := range map[string]bool{"removed": true, "closed": false} {
		t.Run(name, func(t *testing.T) {
			d, a, b := openDispatcher(t), newEvent(t), newEvent(t)
			r, added := new(recorder), new(recorder)
			r.action = func() {
				other := a.FD() + b.FD() - r.ready[0]
				// As long as dup is open, the kernel reports the old descriptor, unless it
				// was removed.
				dup, err := unix.Dup(other)
				require.NoError(t, err)
				t.Cleanup(func() { _ = unix.Close(dup) })
				if remove {
					d.Remove(other)
				}
				require.NoError(t, unix.Dup3(newEvent(t).FD(), other, unix.O_CLOEXEC))
				require.NoError(t, d.Add(other, unix.EPOLLIN, added))
			}
			for _, e := range []*fdevent.Event{a, b} {
				require.NoError(t, d.Add(e.FD(), unix.EPOLLIN, r))
				e.Signal()
			}
			dispatch(t, d)
			require.Len(t, r.ready, 1)
			d.Remove(r.ready[0])
			dispatch(t, d)
			require.Len(t, r.ready, 1)
			require.Empty(t, added.ready)

			other := a
			if r.ready[0] == a.FD() {
				other = b
			}
			d.Modify(other.FD(), unix.EPOLLIN)
			other.Signal()
			dispatch(t, d)
			require.Equal(t, []int{other.FD()}, added.ready)
		})
	}
}

// A ready descriptor that is only attached makes FD readable, and Dispatch ignores it.
func TestAttach(t *testing.T) {
	d, e := openDispatcher(t), newEvent(t)
	require.NoError(t, d.Attach(e.FD(), unix.EPOLLIN))
	e.Signal()
	d.Await()
	dispatch(t, d)
	require.True(t, readable(t, d.FD(), 0))
	require.Nil(t, d.Handler(e.FD()))
}

func TestSetHandler(t *testing.T) {
	d, e := openDispatcher(t), newEvent(t)
	first, second := new(recorder), new(recorder)
	require.NoError(t, d.Add(e.FD(), unix.EPOLLIN, first))
	d.SetHandler(e.FD(), second)
	e.Signal()
	dispatch(t, d)
	require.Empty(t, first.ready)
	require.Equal(t, []int{e.FD()}, second.ready)
}

func TestClosedDispatcher(t *testing.T) {
	d, e := openDispatcher(t), newEvent(t)
	require.NoError(t, d.Add(e.FD(), unix.EPOLLIN, new(recorder)))
	d.Close()
	require.Nil(t, d.Handler(e.FD()))
	require.ErrorIs(t, d.Add(e.FD(), unix.EPOLLIN, new(recorder)), unix.EBADF)
	d.Remove(e.FD())
	d.Close()
}
