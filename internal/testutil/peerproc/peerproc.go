//go:build linux

package peerproc

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Environment variables of a peer process, with its role and its address. In the process
// of the test itself, roleVariable is not set.
const (
	roleVariable    = "RDMALOOP_TEST_PEER"
	addressVariable = "RDMALOOP_TEST_ADDRESS"
)

// A Role is what a peer process does. Its parameter is the address that was passed to
// Command.
type Role func(t *testing.T, address string)

// Main runs the role of a peer process and then ends the process. In the test process,
// Main does nothing. A peer process runs only the test TestPeer, which must call Main.
func Main(t *testing.T, roles map[string]Role) {
	if role := os.Getenv(roleVariable); role != "" {
		roles[role](t, os.Getenv(addressVariable))
		os.Exit(0)
	}
}

// User is the user ID of the peer processes if this process is root. It needs no account.
// Arbitrary.
const User = 20001

// Command returns a command for a peer process. If this process is root, the peer runs as
// User.
func Command(role, address string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestPeer$")
	cmd.Env = append(os.Environ(), roleVariable+"="+role, addressVariable+"="+address)
	cmd.Stderr = os.Stderr
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: User, Gid: User}}
	}
	return cmd
}

// Start starts a peer process, which is killed at the end of the test. The function
// line() returns the next line that the process prints. The function kill() kills the
// process with SIGKILL.
func Start(t *testing.T, role, address string) (line func() string, kill func()) {
	t.Helper()
	return Run(t, Command(role, address))
}

// Run starts the process of cmd. It returns the same functions as Start.
func Run(t *testing.T, cmd *exec.Cmd) (line func() string, kill func()) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	line = func() string {
		t.Helper()
		require.True(t, lines.Scan(), "the peer ended: %v", lines.Err())
		return lines.Text()
	}
	done := false
	kill = func() {
		if !done {
			done = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	return line, kill
}

// InNetworkNamespace runs a peer process as root in a new network namespace until it
// ends. The namespace has no active interfaces. If this process may not create a
// namespace, the test is skipped.
func InNetworkNamespace(t *testing.T, role string) {
	t.Helper()
	cmd := Command(role, "")
	cmd.Args, cmd.Stderr = append(cmd.Args, "-test.v"), nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if os.IsPermission(err) {
		t.Skip("making a network namespace is not permitted here")
	}
	require.NoError(t, err, "%s", out)
}

// Say sends a line from a peer process to the test process.
func Say(text string) { _, _ = os.Stdout.WriteString(text + "\n") }

// Linger waits until this process is killed or the test process has ended.
func Linger() { _, _ = io.Copy(io.Discard, os.Stdin) }

// LinkUp brings a network interface up (netdevice(7), SIOCSIFFLAGS).
func LinkUp(t *testing.T, name string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	require.NoError(t, err)
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr))
}

// NeedsRoot skips the test if this process is not root. Only root can start another
// user's process.
func NeedsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
}
