//go:build linux

package poller_test

import (
	"math"
	"os"
	"testing"

	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestNewNeedsOneEvent(t *testing.T) {
	for _, n := range []int{0, -1, math.MinInt} {
		_, err := poller.New(n)
		require.ErrorContains(t, err, "at least 1")
	}
}

func TestLevelTriggered(t *testing.T) {
	p := newPoller(t, 8)
	near, far := newPair(t)
	token := add(t, p, near, poller.Readable, 42)
	require.Empty(t, wait(t, p, 0))

	send(t, far)
	want := []poller.Event{{Token: token, Data: 42, Ready: poller.Readable}}
	require.Equal(t, want, wait(t, p, testTimeout))
	require.Equal(t, want, wait(t, p, 0), "still readable, so reported again")

	receive(t, near)
	require.Empty(t, wait(t, p, 0))
}

func TestInterest(t *testing.T) {
	for interest, want := range map[poller.Interest]poller.Readiness{
		poller.Readable:                   poller.Readable,
		poller.Writable:                   poller.Writable,
		poller.Readable | poller.Writable: poller.Readable | poller.Writable,
	} {
		p := newPoller(t, 8)
		token := add(t, p, newReady(t), interest, 7)
		require.Equal(t, []poller.Event{{Token: token, Data: 7, Ready: want}}, wait(t, p, testTimeout))
	}
}

func TestNoInterest(t *testing.T) {
	p := newPoller(t, 8)
	near, far := newPair(t)
	add(t, p, near, 0, 0)
	send(t, far)
	require.Empty(t, wait(t, p, 0))

	require.NoError(t, unix.Shutdown(far, unix.SHUT_RDWR))
	events := wait(t, p, testTimeout)
	require.Len(t, events, 1)
	require.Equal(t, poller.Readiness(poller.Hangup), events[0].Ready)
}

func TestInterestNotAllowed(t *testing.T) {
	p := newPoller(t, 8)
	near, _ := newPair(t)
	_, err := p.Add(near, poller.Hangup, 0)
	require.ErrorContains(t, err, "interest 0x4")

	token := add(t, p, near, poller.Readable, 0)
	require.ErrorContains(t, p.Modify(token, poller.Readable|poller.Error), "interest 0x9")
}

func TestModify(t *testing.T) {
	p := newPoller(t, 8)
	token := add(t, p, newReady(t), poller.Readable, 9)
	require.NoError(t, p.Modify(token, poller.Writable))
	require.Equal(t, []poller.Event{{Token: token, Data: 9, Ready: poller.Writable}}, wait(t, p, testTimeout))

	require.NoError(t, p.Modify(token, 0))
	require.Empty(t, wait(t, p, 0))
}

func TestHangup(t *testing.T) {
	p := newPoller(t, 8)
	near, far := newPair(t)
	add(t, p, near, poller.Readable, 0)
	require.NoError(t, unix.Shutdown(far, unix.SHUT_WR))
	half := wait(t, p, testTimeout)
	require.Len(t, half, 1)
	require.Equal(t, poller.Readiness(poller.Readable), half[0].Ready, "the end of the stream is readable and not a hangup")

	require.NoError(t, unix.Shutdown(far, unix.SHUT_RD))
	full := wait(t, p, testTimeout)
	require.Len(t, full, 1)
	require.Equal(t, poller.Readiness(poller.Readable|poller.Hangup), full[0].Ready)
}

func TestErrorIsReported(t *testing.T) {
	p := newPoller(t, 8)
	var fds [2]int
	require.NoError(t, unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	defer unix.Close(fds[1])
	add(t, p, fds[1], 0, 0)
	require.NoError(t, unix.Close(fds[0]))

	events := wait(t, p, testTimeout)
	require.Len(t, events, 1)
	require.Equal(t, poller.Readiness(poller.Error), events[0].Ready)
}

func TestBatchIsBounded(t *testing.T) {
	p := newPoller(t, 2)
	seen := map[uint64]bool{}
	for i := range uint64(5) {
		add(t, p, newReady(t), poller.Readable, i)
	}
	// More descriptors are ready than one Wait can report, so they take turns.
	for range 5 {
		events := wait(t, p, testTimeout)
		require.Len(t, events, 2)
		for _, ev := range events {
			seen[ev.Data] = true
		}
	}
	require.Len(t, seen, 5)
}

func TestEventOutOfRange(t *testing.T) {
	p := newPoller(t, 8)
	add(t, p, newReady(t), poller.Readable, 0)
	_, ok := p.Event(0)
	require.False(t, ok, "there was no Wait before")

	require.Len(t, wait(t, p, testTimeout), 1)
	for _, i := range []int{-1, 1, 8, math.MaxInt} {
		_, ok := p.Event(i)
		require.False(t, ok, "event %d", i)
	}
}

// TestStaleEvents checks that an event of a removed registration is not returned, even
// if a new registration takes its place.
func TestStaleEvents(t *testing.T) {
	p := newPoller(t, 8)
	data := map[uint64]poller.Token{}
	fds := map[uint64]int{1: newReady(t), 2: newReady(t)}
	for d, fd := range fds {
		data[d] = add(t, p, fd, poller.Readable, d)
	}
	n, err := p.Wait(testTimeout)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	first, ok := p.Event(0)
	require.True(t, ok)
	other := 3 - first.Data

	require.NoError(t, p.Remove(data[other]))
	_, ok = p.Event(1)
	require.False(t, ok, "the registration was removed")

	renewed := add(t, p, fds[other], poller.Readable, 99)
	require.Equal(t, uint32(data[other]), uint32(renewed), "the new registration has the index of the removed registration")
	_, ok = p.Event(1)
	require.False(t, ok, "the event does not belong to the new registration")
	again, ok := p.Event(0)
	require.True(t, ok)
	require.Equal(t, first, again)

	seen := map[poller.Token]uint64{}
	for _, ev := range wait(t, p, testTimeout) {
		seen[ev.Token] = ev.Data
	}
	require.Equal(t, map[poller.Token]uint64{first.Token: first.Data, renewed: 99}, seen)
}

func TestStaleTokens(t *testing.T) {
	p := newPoller(t, 8)
	near, _ := newPair(t)
	token := add(t, p, near, poller.Readable, 0)
	require.NoError(t, p.Remove(token))
	add(t, p, near, poller.Readable, 0)

	for _, stale := range []poller.Token{0, token, 1, math.MaxUint64} {
		require.ErrorIs(t, p.Modify(stale, poller.Readable), poller.ErrToken)
		require.ErrorIs(t, p.Remove(stale), poller.ErrToken)
	}
}

func TestAddRefused(t *testing.T) {
	p := newPoller(t, 8)
	near, far := newPair(t)
	first := add(t, p, near, poller.Readable, 0)
	_, err := p.Add(near, poller.Readable, 0)
	require.ErrorIs(t, err, unix.EEXIST)
	_, err = p.Add(-1, poller.Readable, 0)
	require.ErrorIs(t, err, unix.EBADF)

	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	_, err = p.Add(int(file.Fd()), poller.Readable, 0)
	require.ErrorIs(t, err, unix.EPERM)
	var syscallErr *os.SyscallError
	require.ErrorAs(t, err, &syscallErr)

	next := add(t, p, far, poller.Readable, 0)
	require.Equal(t, uint32(first)+1, uint32(next), "a refused registration keeps no index")
}

func TestRemoveAfterTheDescriptorWasClosed(t *testing.T) {
	p := newPoller(t, 8)
	fd, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	token := add(t, p, fd, poller.Readable, 0)
	require.NoError(t, unix.Close(fd))

	require.ErrorIs(t, p.Remove(token), unix.EBADF)
	require.ErrorIs(t, p.Remove(token), poller.ErrToken, "the registration is removed in spite of the error")
}

func TestNesting(t *testing.T) {
	outer, inner := newPoller(t, 8), newPoller(t, 8)
	add(t, outer, inner.FD(), poller.Readable, 1)
	near, far := newPair(t)
	add(t, inner, near, poller.Readable, 2)
	require.Empty(t, wait(t, outer, 0))

	send(t, far)
	require.Len(t, wait(t, outer, testTimeout), 1)
	require.Len(t, wait(t, inner, 0), 1)
	receive(t, near)
	require.Empty(t, wait(t, outer, 0))

	inner.Wake()
	require.Len(t, wait(t, outer, testTimeout), 1, "a wake of the inner poller makes its descriptor readable")
	require.Empty(t, wait(t, inner, 0))
	require.True(t, inner.Woken())
	require.Empty(t, wait(t, outer, 0))

	_, err := inner.Add(outer.FD(), poller.Readable, 0)
	require.ErrorIs(t, err, unix.ELOOP)
}

func TestClose(t *testing.T) {
	p, err := poller.New(8)
	require.NoError(t, err)
	near := newReady(t)
	token := add(t, p, near, poller.Readable, 0)
	p.Wake()
	require.Len(t, wait(t, p, testTimeout), 1)

	require.NoError(t, p.Close())
	require.NoError(t, p.Close(), "a second Close does nothing")
	_, ok := p.Event(0)
	require.False(t, ok)
	require.False(t, p.Woken())
	require.Equal(t, -1, p.FD())

	p.Wake()

	_, err = p.Add(near, poller.Readable, 0)
	require.ErrorIs(t, err, poller.ErrClosed)
	require.ErrorIs(t, p.Modify(token, 0), poller.ErrClosed)
	require.ErrorIs(t, p.Remove(token), poller.ErrClosed)
	_, err = p.Wait(testTimeout)
	require.ErrorIs(t, err, poller.ErrClosed)
	require.False(t, p.Woken())

	// The registered descriptor is still open.
	receive(t, near)
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	p := newPoller(t, 8)
	token := add(t, p, newReady(t), poller.Readable, 5)
	turn := func(p *poller.Poller) bool {
		p.Wake()
		n, err := p.Wait(0)
		ev, ok := p.Event(0)
		if !ok || err != nil || n != 1 || ev.Data != 5 || !p.Woken() {
			return false
		}
		n, err = p.Wait(testTimeout)
		return n == 1 && err == nil && p.Modify(token, poller.Readable) == nil
	}
	ok := true
	require.Zero(t, testing.AllocsPerRun(1000, func() { ok = ok && turn(p) }))
	p.Coarsen()
	require.Zero(t, testing.AllocsPerRun(1000, func() { ok = ok && turn(p) }))
	require.True(t, ok)
}

// BenchmarkLook measures a Wait(0) without events.
func BenchmarkLook(b *testing.B) {
	p := newPoller(b, 64)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = p.Wait(0)
	}
}

// BenchmarkWake measures a Wake and the Wait that it ends.
func BenchmarkWake(b *testing.B) {
	p := newPoller(b, 64)
	b.ReportAllocs()
	for b.Loop() {
		p.Wake()
		_, _ = p.Wait(0)
	}
}
