//go:build linux

package poller_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	// testTimeout ends a test that hangs.
	testTimeout = 30 * time.Second
	// noLimit is a timeout that never passes.
	noLimit time.Duration = -1
)

func newPoller(t testing.TB, maxEvents int) *poller.Poller {
	t.Helper()
	p, err := poller.New(maxEvents)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// newPair returns two connected sockets.
func newPair(t *testing.T) (near, far int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// newReady returns a readable socket.
func newReady(t *testing.T) int {
	t.Helper()
	near, far := newPair(t)
	send(t, far)
	return near
}

func send(t *testing.T, fd int) {
	t.Helper()
	_, err := unix.Write(fd, []byte{1})
	require.NoError(t, err)
}

func receive(t *testing.T, fd int) {
	t.Helper()
	var b [1]byte
	_, err := unix.Read(fd, b[:])
	require.NoError(t, err)
}

func add(t *testing.T, p *poller.Poller, fd int, interest poller.Interest, data uint64) poller.Token {
	t.Helper()
	token, err := p.Add(fd, interest, data)
	require.NoError(t, err)
	return token
}

// wait calls Wait and returns the events.
func wait(t *testing.T, p *poller.Poller, timeout time.Duration) []poller.Event {
	t.Helper()
	n, err := p.Wait(timeout)
	require.NoError(t, err)
	var events []poller.Event
	for i := range n {
		if ev, ok := p.Event(i); ok {
			events = append(events, ev)
		}
	}
	return events
}

// awaitBlocked waits until a thread is blocked in one of these system calls. Source:
// proc_pid_syscall(5).
func awaitBlocked(t *testing.T, tid int, calls ...int) {
	t.Helper()
	path := fmt.Sprintf("/proc/self/task/%d/syscall", tid)
	deadline := time.Now().Add(testTimeout)
	for time.Now().Before(deadline) {
		line, err := os.ReadFile(path)
		require.NoError(t, err)
		number, _, _ := strings.Cut(string(line), " ")
		if call, err := strconv.Atoi(number); err == nil && slices.Contains(calls, call) {
			return
		}
		runtime.Gosched()
	}
	require.FailNow(t, "the thread never blocked")
}

func awaitEpoll(t *testing.T, tid int) {
	t.Helper()
	awaitBlocked(t, tid, unix.SYS_EPOLL_PWAIT2, unix.SYS_EPOLL_PWAIT)
}

func awaitDone(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(testTimeout):
		require.FailNow(t, "the wait never ended")
	}
}
