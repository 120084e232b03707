//go:build linux

package unixcm

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
)

// drive handles the readable descriptors once.
func (s *party) drive(t *testing.T) {
	t.Helper()
	require.NoError(t, s.TC.Probe().Drive())
}

// reason reports whether the peer has sent a message.
func (r *rawPeer) reason() bool {
	r.t.Helper()
	n, _, err := unix.Recvfrom(r.fd, make([]byte, maxMessage), unix.MSG_DONTWAIT|unix.MSG_PEEK)
	return err == nil && n > 0
}

// Processes of a user who is not allowed are refused without a client, a timer or a
// watched descriptor. Only some of them get a message with the reason, and only some are
// refused in one turn.
func TestForeignConnects(t *testing.T) {
	s := newParty(t)
	clock := cmtest.UseClock(s.TC)
	clock.Now = s.M.Start
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	s.unix.Users = access.Users{} // allows no user
	connect := func(n int) (reasons int) {
		var peers []*rawPeer
		for range n {
			peers = append(peers, dialRaw(t, l))
		}
		s.drive(t)
		for i, r := range peers {
			if r.reason() {
				reasons++
			} else {
				require.Equal(t, i < foreignBatch, r.closedByPeer())
			}
		}
		s.drive(t)
		for _, r := range peers {
			require.True(t, r.reason() || r.closedByPeer())
			r.close()
		}
		require.Empty(t, listenerOf(s).clients)
		cmtest.RequireNoTimer(t, s.TC)
		return reasons
	}
	require.Equal(t, userRefusalsPerSecond, connect(foreignBatch+10))
	require.Zero(t, connect(10))
	clock.Advance(100 * time.Millisecond)
	require.Equal(t, userRefusalsPerSecond/10, connect(foreignBatch))
	require.Equal(t, cmtest.Counted{"rcvd_user_err": 2*foreignBatch + 20}, s.Counted())
}

// asUser runs fn on a thread of another user.
func asUser(uid int, fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread ends with this goroutine, because it stays locked.
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno == 0 {
			fn()
		}
	}()
	<-done
}

// Processes of a user who is not allowed do not take the turns of the clients that wait
// behind them.
func TestForeignConnectsTakeNoTurn(t *testing.T) {
	peerproc.NeedsRoot(t)
	s := newParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	var foreign []*rawPeer
	asUser(peerproc.User, func() {
		for range 3 * acceptBatch {
			foreign = append(foreign, dialRaw(t, l))
		}
	})
	require.Len(t, foreign, 3*acceptBatch)
	client := dialRaw(t, l)
	s.drive(t)
	require.Len(t, listenerOf(s).clients, 1)
	for _, r := range append(foreign, client) {
		r.close()
	}
	s.Quiet()
}
