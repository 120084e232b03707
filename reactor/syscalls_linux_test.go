package reactor_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// countedRounds is the number of round trips of countedProcess while calls are counted. A
// shard reads its doorbell once in 64 rounds.
const countedRounds = 256

// countedProcess lets two loops exchange messages on one thread. Both loops sleep before
// each message. Calls of getppid mark the beginning and the end of the counted rounds.
func countedProcess(*testing.T, string) {
	runtime.LockOSThread()
	opened := false
	server := steppedLoop(&hooks{message: func(c *reactor.Conn, msg reactor.Message) { must(c.Send(msg.Data(), nil)) }})
	client := steppedLoop(&hooks{
		open:    func(c *reactor.Conn) { opened = true; must(c.Send(make([]byte, 64), nil)) },
		message: func(c *reactor.Conn, msg reactor.Message) { must(c.Send(msg.Data(), nil)) },
	})
	ln, err := server.Engine().Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	must(err)
	must(client.Engine().Dial(ln.Addr(), nil))
	round := func(limit time.Duration) {
		for _, l := range []*reactor.Loop{server, client} {
			reactor.WaitAsleep(l, limit)
			reactor.TurnsBeforeSleep(l)
		}
	}
	reactor.TurnsBeforeSleep(server)
	reactor.TurnsBeforeSleep(client)
	for !opened {
		round(0)
	}
	for range 10 * countedRounds { // These rounds allocate all memory that is needed.
		round(0)
	}
	unix.Getppid()
	for range countedRounds {
		round(time.Second)
	}
	unix.Getppid()
}

// TestPeer is the only test of a peer process; see peerproc.Main.
func TestPeer(t *testing.T) {
	peerproc.Main(t, map[string]peerproc.Role{"counted": countedProcess, "accepting": acceptingProcess, "dialing": dialingProcess})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// steppedLoop makes a loop that sleeps in its turns and has no goroutine.
func steppedLoop(h reactor.Handler) *reactor.Loop {
	p, err := soft.Open(nil)
	must(err)
	engine, err := reactor.New(p, h, &reactor.Config{NumLoops: 1, Idle: reactor.IdleEvent})
	must(err)
	l, err := reactor.StartStepped(engine)
	must(err)
	return l
}

// TestSyscallsPerMessage checks that a loop that sleeps between messages makes two system
// calls for each message: one waits, and one rings the peer's doorbell.
func TestSyscallsPerMessage(t *testing.T) {
	calls := countSyscalls(t, peerproc.Command("counted", ""))
	const messages = 2 * countedRounds
	t.Logf("%d messages: %d waits, %d doorbells", messages, calls[unix.SYS_EPOLL_PWAIT2], calls[unix.SYS_SENDTO])
	require.InDelta(t, messages, calls[unix.SYS_EPOLL_PWAIT2], messages/32, "waits")
	require.Equal(t, messages, calls[unix.SYS_SENDTO], "doorbells that were rung")
	others := 0
	for _, nr := range []int{
		unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_CTL, unix.SYS_READ, unix.SYS_WRITE, unix.SYS_RECVFROM,
		unix.SYS_RECVMSG, unix.SYS_SENDMSG, unix.SYS_TIMERFD_SETTIME, unix.SYS_PPOLL,
	} {
		others += calls[nr]
	}
	require.LessOrEqual(t, others, messages/16, "other calls: %v", calls)
}

// countSyscalls runs a process with ptrace(2). It returns the numbers of system calls
// that one thread makes between two calls of getppid.
func countSyscalls(t *testing.T, cmd *exec.Cmd) map[int]int {
	runtime.LockOSThread() // Only the thread that starts the process can trace it.
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skip("ptrace is not permitted here")
	}
	require.NoError(t, err)
	pid := cmd.Process.Pid
	var status unix.WaitStatus
	_, err = unix.Wait4(pid, &status, unix.WALL, nil) // The process stops in execve(2).
	require.NoError(t, err)
	require.NoError(t, unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL))
	require.NoError(t, unix.PtraceSyscall(pid, 0))
	counted := tracedThread{calls: map[int]int{}, inside: map[int]bool{}}
	for {
		tid, err := unix.Wait4(-pid, &status, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		if tid == pid && (status.Exited() || status.Signaled()) {
			require.Zero(t, status.ExitStatus())
			require.Equal(t, 2, counted.marks)
			return counted.calls
		}
		if status.Stopped() {
			// The thread may have ended meanwhile, so errors are ignored.
			_ = unix.PtraceSyscall(tid, counted.stopped(tid, status))
		}
	}
}

// A tracedThread counts the system calls of the thread that calls getppid.
type tracedThread struct {
	tid    int
	marks  int          // number of calls of getppid so far
	calls  map[int]int  // number of calls of each system call between two marks
	inside map[int]bool // IDs of the threads that are in a system call
}

// stopped handles a stop of a thread. It returns the signal to deliver, or 0.
func (c *tracedThread) stopped(tid int, status unix.WaitStatus) (signal int) {
	switch sig := status.StopSignal(); sig {
	case unix.SIGTRAP | 0x80: // begin or end of a system call (PTRACE_O_TRACESYSGOOD)
		if c.inside[tid] = !c.inside[tid]; c.inside[tid] {
			c.begin(tid)
		}
		return 0
	case unix.SIGTRAP, unix.SIGSTOP: // The thread has started another one, or is new itself.
		return 0
	default:
		return int(sig)
	}
}

// begin counts a system call that begins.
func (c *tracedThread) begin(tid int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", tid))
	if err != nil {
		return // The file does not exist if the thread was killed.
	}
	first, _, _ := strings.Cut(string(text), " ")
	nr, err := strconv.Atoi(first)
	switch {
	case err != nil:
	case nr == unix.SYS_GETPPID:
		c.tid = tid
		c.marks++
	case c.marks == 1 && tid == c.tid:
		c.calls[nr]++
	}
}
