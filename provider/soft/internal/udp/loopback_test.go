//go:build linux

package udp

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A loopback waits for packets on the loopback interface. Most packets arrive before the
// sending system call returns. On a busy machine, the kernel's thread ksoftirqd delivers
// packets later. Each processor has one queue of packets, in the order of sending.
type loopback struct {
	out int            // socket that sends the marker
	in  [1]unix.PollFd // socket that receives the marker
	b   [1]byte
}

// newLoopback binds the goroutine to its processor until the test ends, so that all
// packets of the test are in the same queue.
func newLoopback(t testing.TB) *loopback {
	t.Helper()
	var before, one unix.CPUSet
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	cpu := 0
	for !before.IsSet(cpu) {
		cpu++
	}
	one.Set(cpu)
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	t.Cleanup(func() { require.NoError(t, unix.SchedSetaffinity(0, &before)) })

	in, _ := openTestSocket(t, "127.9.0.9", 0)
	out, _ := openTestSocket(t, "127.9.0.9", 0)
	local, err := unix.Getsockname(in)
	require.NoError(t, err)
	require.NoError(t, unix.Connect(out, local))
	return &loopback{out: out, in: [1]unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}}}
}

// drain returns when all packets that the test has sent have arrived. It sends one more
// packet, the marker, and waits for it.
func (l *loopback) drain(t testing.TB) {
	t.Helper()
	_, err := unix.Write(l.out, l.b[:])
	require.NoError(t, err)
	for {
		_, err = unix.Poll(l.in[:], -1)
		if err != unix.EINTR {
			break
		}
	}
	require.NoError(t, err)
	_, err = unix.Read(int(l.in[0].Fd), l.b[:])
	require.NoError(t, err)
}
