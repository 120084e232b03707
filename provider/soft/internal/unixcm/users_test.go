//go:build linux

package unixcm

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
)

// peerRefused sends a REQ and a SIDR request. Both must be refused with an error that
// names the user of this process.
func peerRefused(t *testing.T, address string) {
	s := newParty(t)
	for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
		id := s.Connecting(ps, netip.MustParseAddrPort(address), &cm.ConnParam{PrivateData: []byte("secret")})
		ev := s.Next()
		require.Same(t, id, ev.ID)
		require.ErrorIs(t, ev.Err, cm.ErrRefused)
		require.ErrorIs(t, ev.Err, cm.ErrUserNotAllowed)
		require.ErrorContains(t, ev.Err, fmt.Sprintf("user not allowed: the listener refuses user %d, of this process", os.Geteuid()))
		require.NoError(t, ev.Ack())
	}
	peerproc.Say("refused")
	peerproc.Linger()
}

// The listener refuses and counts the requests of a user who is not allowed. The
// application does not get them.
func TestListenerRefusesUser(t *testing.T) {
	peerproc.NeedsRoot(t)
	s := newParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	lookups := s.Listen(cm.UDP, l.LocalAddr().String(), 0)
	line, kill := peerproc.Start(t, "refused", l.LocalAddr().String())
	s.AwaitCount("rcvd_user_err", 2)
	require.Equal(t, "refused", line())
	s.Quiet()
	require.Equal(t, cmtest.Counted{"rcvd_user_err": 2}, s.Counted())
	cmtest.RequireNoTimer(t, s.TC)
	kill()
	require.NoError(t, lookups.Close())
}

// peerUnmappedServer runs in a user namespace to which the user of the test does not
// belong. Its server must refuse a client of this user. Its client must get an error from
// a server of this user.
func peerUnmappedServer(t *testing.T, address string) {
	s := newParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	peerproc.Say(l.LocalAddr().String())
	s.AwaitCount("rcvd_user_err", 1)
	s.Connecting(cm.TCP, netip.MustParseAddrPort(address), nil)
	ev := s.Next()
	require.ErrorIs(t, ev.Err, cm.ErrUserNotAllowed)
	require.ErrorContains(t, ev.Err, fmt.Sprintf(" belongs to user %d", overflowUser(t)))
	require.NoError(t, ev.Ack())
	peerproc.Say("refused")
	peerproc.Linger()
}

// A process is refused if its user is outside the user namespace. The kernel reports all
// such users with one number, the overflow user ID.
func TestUnmappedUser(t *testing.T) {
	peerproc.NeedsRoot(t)
	s := newHostParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	cmd := peerproc.Command("unmapped-server", l.LocalAddr().String())
	const overflow = 65534 // default value of /proc/sys/kernel/overflowuid
	one := []syscall.SysProcIDMap{{ContainerID: overflow, HostID: peerproc.User, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, UidMappings: one, GidMappings: one,
		Credential: &syscall.Credential{Uid: overflow, Gid: overflow},
	}
	probe := exec.Command("/proc/self/exe", "-test.run=^$")
	probe.SysProcAttr = cmd.SysProcAttr
	if err := probe.Run(); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skip("this process may not make user namespaces")
	}
	line, kill := peerproc.Run(t, cmd)
	defer kill()
	s.Connecting(cm.TCP, netip.MustParseAddrPort(line()), nil)
	ev := s.Next()
	require.ErrorIs(t, ev.Err, cm.ErrUserNotAllowed)
	require.ErrorContains(t, ev.Err, "the listener refuses user 0, of this process")
	require.NoError(t, ev.Ack())
	require.Equal(t, "refused", line())
	s.Quiet()
}

// overflowUser returns the overflow user ID of this host (proc_sys_kernel(5),
// overflowuid).
func overflowUser(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	require.NoError(t, err)
	uid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return uid
}
