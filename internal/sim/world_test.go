//go:build linux

package sim_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/sim"
	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
)

// inWorld calls fn with a process of a new world.
func inWorld(t *testing.T, fn func(t *testing.T, w *sim.World, p *sim.Process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(1)
		defer w.Close()
		fn(t, w, w.AddHost("host").AddProcess("process", 1))
	})
}

// TestSettle checks that Settle waits for a packet and for the task that it wakes, but not
// for a task that sleeps.
func TestSettle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *sim.World, p *sim.Process) {
		w.Links = func(*sim.Host, *sim.Host) netsim.Config { return netsim.Config{Delay: time.Second} }
		at := netip.AddrPortFrom(p.Addrs()[0], 1)
		arrived, woken, slept := false, false, false
		_, err := p.Bind(at, func(netip.AddrPort, []byte) { arrived = true })
		require.NoError(t, err)
		p.Go(func() {
			p.Wait(func() bool { return arrived })
			woken = true
			p.Sleep(-1, time.Hour)
			slept = true
		})
		p.Send(at, at, []byte("datagram"))
		w.Settle()
		require.True(t, woken)
		require.False(t, slept)
		require.Less(t, w.Now(), time.Minute)
	})
}

// TestTaskThatPanics checks that the test can go on after a panic of a task, as the cleanups
// of a test do after FailNow in a callback, and that the program can open files again.
func TestTaskThatPanics(t *testing.T) {
	inWorld(t, func(t *testing.T, w *sim.World, p *sim.Process) {
		var before, after unix.Rlimit
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
		p.NoDescriptors = true
		p.Go(func() { panic("reason") })
		require.Panics(t, w.Settle)
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &after))
		require.Equal(t, before, after)
		w.RunUntil(time.Second)
		require.Equal(t, time.Second, w.Now())
	})
}

// TestTaskMustNotWaitForItself checks that a task can neither run the world nor kill itself.
func TestTaskMustNotWaitForItself(t *testing.T) {
	inWorld(t, func(t *testing.T, w *sim.World, p *sim.Process) {
		done := false
		p.Go(func() {
			require.Panics(t, w.Settle)
			require.Panics(t, p.Kill)
			w.RunUntil(time.Second)
			done = true
		})
		w.RunUntil(time.Minute)
		require.True(t, done)
		require.False(t, p.Dead())
	})
}
