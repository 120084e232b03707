//go:build linux

package poller_test

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/onthread"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestWakeEndsTheNextWait(t *testing.T) {
	p := newPoller(t, 8)
	p.Wake()
	p.Wake()
	n, err := p.Wait(testTimeout)
	require.NoError(t, err)
	require.Zero(t, n, "Wait does not count a wake as an event")
	require.True(t, p.Woken())

	require.Empty(t, wait(t, p, 0))
	require.False(t, p.Woken(), "the previous Wait has consumed the wake")

	p.Wake()
	require.Empty(t, wait(t, p, 0))
	require.True(t, p.Woken())
}

func TestWakeEndsTheCurrentWait(t *testing.T) {
	p := newPoller(t, 8)
	for range 100 {
		var n int
		var err error
		tid, done := onthread.Run(func() { n, err = p.Wait(noLimit) })
		awaitEpoll(t, tid)
		p.Wake()
		awaitDone(t, done)
		require.NoError(t, err)
		require.Zero(t, n)
		require.True(t, p.Woken())
	}
}

// TestWakeAmongEvents checks that a wake does not hide events of the same Wait.
func TestWakeAmongEvents(t *testing.T) {
	p := newPoller(t, 8)
	want := map[uint64]bool{}
	for i := range uint64(4) {
		if i == 2 {
			p.Wake()
		}
		add(t, p, newReady(t), poller.Readable, i)
		want[i] = true
	}
	got := map[uint64]bool{}
	for _, ev := range wait(t, p, testTimeout) {
		got[ev.Data] = true
	}
	require.Equal(t, want, got)
	require.True(t, p.Woken())
}

func TestWakeWithMaxOneEvent(t *testing.T) {
	p := newPoller(t, 1)
	add(t, p, newReady(t), poller.Readable, 3)
	p.Wake()
	woken, events := 0, 0
	// Each Wait reports one ready descriptor. They are reported in turn, so one of the
	// calls reports the wake.
	for range 4 {
		events += len(wait(t, p, testTimeout))
		if p.Woken() {
			woken++
		}
	}
	require.Equal(t, 1, woken)
	require.Equal(t, 3, events)
}

// TestWakeFromManyGoroutines checks that no wake is lost.
func TestWakeFromManyGoroutines(t *testing.T) {
	const wakers, rounds = 8, 500
	p := newPoller(t, 8)
	cells := make(chan int, wakers*rounds)
	var wg sync.WaitGroup
	for range wakers {
		wg.Go(func() {
			for i := range rounds {
				cells <- i
				p.Wake()
			}
		})
	}
	seen, wakes := 0, 0
	for seen < wakers*rounds {
		n, err := p.Wait(testTimeout)
		require.NoError(t, err)
		require.Zero(t, n)
		require.True(t, p.Woken(), "a wake was lost")
		wakes++
		for len(cells) > 0 {
			<-cells
			seen++
		}
	}
	wg.Wait()
	require.LessOrEqual(t, wakes, wakers*rounds)
}

func TestWakePublishes(t *testing.T) {
	p := newPoller(t, 8)
	// The race detector checks that Wake and Wait order the accesses to this variable.
	var shared int
	for i := range 1000 {
		go func() {
			shared = i
			p.Wake()
		}()
		_, err := p.Wait(testTimeout)
		require.NoError(t, err)
		require.True(t, p.Woken())
		require.Equal(t, i, shared)
	}
}

func TestWakesCoalesce(t *testing.T) {
	w, err := poller.NewWaker()
	require.NoError(t, err)
	for range 3 {
		for range 10 {
			w.Wake()
		}
		require.Equal(t, uint64(1), eventfdCounter(t, w.FD()))
		w.Consume()
	}
	require.NoError(t, w.Close())
}

// TestCloseWaitsForPendingSignal checks that the eventfd is not closed between the two
// halves of Wake.
func TestCloseWaitsForPendingSignal(t *testing.T) {
	w, err := poller.NewWaker()
	require.NoError(t, err)
	finish := w.BeginWake()
	tid, closed := onthread.Run(func() { err = w.Close() })
	awaitBlocked(t, tid, unix.SYS_PPOLL)
	var stat unix.Stat_t
	require.NoError(t, unix.Fstat(w.FD(), &stat), "the descriptor was closed before the signal")
	finish()
	awaitDone(t, closed)
	require.NoError(t, err)
	require.ErrorIs(t, unix.Fstat(w.FD(), &stat), unix.EBADF)
	w.Wake()
}

// TestWakeDuringClose checks that goroutines may call Wake during Close.
func TestWakeDuringClose(t *testing.T) {
	for range 200 {
		p, err := poller.New(1)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(p.Wake)
		}
		require.NoError(t, p.Close())
		wg.Wait()
		p.Wake()
	}
}

// eventfdCounter reads the counter of the eventfd, which becomes zero.
func eventfdCounter(t *testing.T, fd int) uint64 {
	t.Helper()
	var count [8]byte
	_, err := unix.Read(fd, count[:])
	require.NoError(t, err)
	return binary.NativeEndian.Uint64(count[:])
}
