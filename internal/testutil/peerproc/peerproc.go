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
)

// Environment variables that select the role of a peer process.
const (
	roleVariable    = "RDMALOOP_TEST_PEER"
	addressVariable = "RDMALOOP_TEST_ADDRESS"
)

// A Role is what a peer process does. The address is the one that Command was called
// with.
type Role func(t *testing.T, address string)

// Main runs the role of a peer process, and ends the process. In the test run itself it
// does nothing. It must be called by TestPeer of each package that starts peer processes.
func Main(t *testing.T, roles map[string]Role) {
	if role := os.Getenv(roleVariable); role != "" {
		roles[role](t, os.Getenv(addressVariable))
		os.Exit(0)
	}
}

// User is the user of the peer processes if this process is root. The number is
// arbitrary; no account needs to have it.
const User = 20001

// Command returns the command that runs a peer process. If this process is root, the peer
// runs as User.
func Command(role, address string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestPeer$")
	cmd.Env = append(os.Environ(), roleVariable+"="+role, addressVariable+"="+address)
	cmd.Stderr = os.Stderr
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: User, Gid: User}}
	}
	return cmd
}

// Start starts a peer process. The function line returns the next line that the peer
// prints. The function kill ends the peer with SIGKILL. The peer also ends at the end of
// the test.
func Start(t *testing.T, role, address string) (line func() string, kill func()) {
	t.Helper()
	return Run(t, Command(role, address))
}

// Run starts the command of a peer process; see Start.
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

// InNetworkNamespace runs a peer process as root in a new network namespace, where no
// interface is up, and waits until the process ends. It skips the test if the system does
// not allow that.
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

// Say prints a line for the test process.
func Say(text string) { _, _ = os.Stdout.WriteString(text + "\n") }

// Linger waits until this process is killed, or until the test process has ended.
func Linger() { _, _ = io.Copy(io.Discard, os.Stdin) }
