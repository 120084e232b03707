//go:build linux

package soft

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// connectDatagrams connects to the UD queue pair dst, and sends one datagram as the
// queue pair src. It returns the socket.
func connectDatagrams(t *testing.T, dst, src uint32) int {
	for {
		fd, err := unixsock.New()
		require.NoError(t, err)
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: datagramBindAddr(dst)})
		if err == nil {
			err = unix.Send(fd, bareDatagram(src), unix.MSG_NOSIGNAL)
		}
		if err == nil {
			t.Cleanup(func() { _ = unix.Close(fd) })
			return fd
		}
		_ = unix.Close(fd)
		require.True(t, errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EPIPE), "%v", err)
		time.Sleep(time.Millisecond)
	}
}

// peerDatagramSenders is the function of a peer process. It sends one datagram on each
// connection. The parameter address has the queue pair number and the number of
// connections.
func peerDatagramSenders(t *testing.T, address string) {
	var to uint32
	var n int
	_, err := fmt.Sscan(address, &to, &n)
	require.NoError(t, err)
	for i := range n {
		connectDatagrams(t, to, uint32(i+2))
	}
	peerproc.Say("sent")
	peerproc.Linger()
}

// udLocalOf returns the local path of an end's UD queue pair.
func udLocalOf(e *end) *udLocal { return e.qp.path.(*udPath).local }

// sourcesOf returns how many connections an end's queue pair has accepted, for each
// user.
func sourcesOf(e *end) map[uint32]int {
	n := make(map[uint32]int)
	for _, src := range udLocalOf(e).sources {
		n[src.uid]++
	}
	return n
}

// receiveFrom receives a datagram from each of n senders. It posts all buffers first,
// because one poll can receive several datagrams.
func (e *end) receiveFrom(n int) {
	e.t.Helper()
	from := make(map[uint32]bool)
	for posted, polls := 0, 0; len(from) < n; polls++ {
		require.Less(e.t, polls, pollLimit, "%d of %d", len(from), n)
		for posted < n && posted < len(from)+2*datagramBudget {
			e.recv(0, 0, 100)
			posted++
		}
		k, err := e.cq.Poll(e.wc)
		require.NoError(e.t, err)
		for _, wc := range e.wc[:k] {
			require.False(e.t, from[wc.SrcQPN])
			from[wc.SrcQPN] = true
		}
	}
}

// When a user has reached the limit, a new connection replaces the user's connection
// that was idle for the longest time.
func TestDatagramUserLimit(t *testing.T) {
	peerproc.NeedsRoot(t)
	cfg := localConfig()
	cfg.AllowedUsers, cfg.MaxConnsPerUser = []uint32{peerproc.User}, userConns
	d := openDevice(t, cfg)
	b, other := newDatagramEnd(t, d, verbs.ProgressManual), newDatagramEnd(t, d, verbs.ProgressManual)
	own := uint32(os.Geteuid())
	for i := range userConns + 2 {
		connectDatagrams(t, b.qp.num, uint32(i+2))
	}
	b.receiveFrom(userConns + 2)

	const senders = 10
	line, kill := peerproc.Start(t, "datagram-senders", fmt.Sprint(b.qp.num, senders))
	require.Equal(t, "sent", line())
	b.receiveFrom(senders)
	require.Equal(t, map[uint32]int{own: userConns + 2, peerproc.User: userConns}, sourcesOf(b))
	require.False(t, d.connLimit.Acquire(peerproc.User), "listeners have no room for this user, either")
	require.Empty(t, countsOf(t, d))

	line, killOther := peerproc.Start(t, "datagram-senders", fmt.Sprint(other.qp.num, senders))
	require.Equal(t, "sent", line())
	other.receiveFrom(senders)
	require.Empty(t, sourcesOf(other))
	require.Equal(t, counted{"user_limit_err": senders}, countsOf(t, d))
	killOther()

	kill()
	b.drive()
	require.Equal(t, map[uint32]int{own: userConns + 2}, sourcesOf(b))
	require.Equal(t, sourcesOf(b), d.connLimit.Counts())
	require.NoError(t, b.qp.Close())
	require.Empty(t, d.connLimit.Counts(), "the connections are not counted any more")
}

// One user may open more connections than a queue pair keeps. The connections of other
// users stay open.
func TestDatagramSendersOfOneUser(t *testing.T) {
	peerproc.NeedsRoot(t)
	cfg := localConfig()
	cfg.AllowedUsers, cfg.MaxConnsPerUser = []uint32{AnyUser}, -1
	b := newDatagramEnd(t, openDevice(t, cfg), verbs.ProgressManual)
	for i := range uint32(2) {
		connectDatagrams(t, b.qp.num, i+2)
	}
	b.receiveFrom(2)
	const senders = maxDatagramSources + 10
	_, kill := peerproc.Start(t, "datagram-senders", fmt.Sprint(b.qp.num, senders))
	b.receiveFrom(senders)
	require.Equal(t, map[uint32]int{uint32(os.Geteuid()): 2, peerproc.User: maxDatagramSources - 2}, sourcesOf(b))
	kill()
}

func TestEvictionCandidate(t *testing.T) {
	p := &udLocal{sources: make(map[int]*udLocalSource)}
	require.Nil(t, p.evictionCandidate(1))
	add := func(uid uint32) *udLocalSource {
		p.uses++
		src := &udLocalSource{local: p, uid: uid, lastUse: p.uses}
		p.sources[len(p.sources)] = src
		return src
	}
	first := add(1)
	busy := add(2)
	third := add(3)
	require.Same(t, first, p.evictionCandidate(4), "all users have as many connections")
	add(2)
	require.Same(t, busy, p.evictionCandidate(4))
	require.Same(t, first, p.evictionCandidate(1), "users 1 and 2 have two, the new one included")
	add(3)
	require.Same(t, third, p.evictionCandidate(3))
}

// peerDatagramNoDescriptors is the function of a peer process with three UD connections
// and no free descriptor. A new connection replaces one of the three, if its user is
// allowed.
func peerDatagramNoDescriptors(t *testing.T, _ string) {
	e := newDatagramEnd(t, openDevice(t, localConfig()), verbs.ProgressManual)
	p, dev := udLocalOf(e), deviceOf(e.qp)
	peerproc.Say(fmt.Sprint(e.qp.num))
	e.receiveFrom(3)
	peerproc.ExhaustDescriptors(t)
	peerproc.Say("full")

	for countsOf(t, dev)["datagram_user_refused"] == 0 {
		e.drive()
	}
	require.Len(t, p.sources, 3, "a user who is not allowed costs no connection")
	requireSpare(t, dev)
	peerproc.Say("refused")

	e.receiveFrom(1)
	require.Len(t, p.sources, 3)
	requireSpare(t, dev)
	for _, src := range p.sources {
		src.close()
	}
	peerproc.TakeDescriptors(t)
	peerproc.Say("taken")

	// Without a free descriptor and without another connection, the queue pair reads one
	// datagram of a new connection and closes it.
	e.receiveFrom(1)
	require.Empty(t, p.sources)
	require.Positive(t, countsOf(t, dev)["no_descriptors_err"])
	requireSpare(t, dev)
	peerproc.Say("done")
	peerproc.Linger()
}

// A queue pair without free descriptors closes a connection to accept a new one. It does
// so only for an allowed user.
func TestDatagramSourcesOutOfDescriptors(t *testing.T) {
	peerproc.NeedsRoot(t)
	cmd := peerproc.Command("datagram-full", "")
	cmd.SysProcAttr = nil // If SysProcAttr is nil, the peer runs as root, like this process.
	line, kill := peerproc.Run(t, cmd)
	var num uint32
	_, err := fmt.Sscan(line(), &num)
	require.NoError(t, err)
	var fds []int
	for i := range uint32(3) {
		fds = append(fds, connectDatagrams(t, num, i+2))
	}
	require.Equal(t, "full", line())

	stranger := peerproc.Command("datagram-source", fmt.Sprint(num))
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: peerproc.User + 1, Gid: peerproc.User + 1}}
	peerproc.Run(t, stranger)
	require.Equal(t, "refused", line())
	for _, fd := range fds {
		require.False(t, closedByPeer(t, fd))
	}

	connectDatagrams(t, num, 7)
	require.Equal(t, "taken", line())
	require.True(t, closedByPeer(t, fds[0]), "the connection that was idle for longest is closed")

	connectDatagrams(t, num, 8)
	require.Equal(t, "done", line())
	kill()
}

// closedByPeer reports whether the peer has closed a connected socket.
func closedByPeer(t *testing.T, fd int) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0)
	require.NoError(t, err)
	return n > 0
}
