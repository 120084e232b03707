//go:build linux

package udpath

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// connectDatagrams connects to the UD queue pair dst, and sends one datagram as the
// queue pair src. It returns the socket.
func connectDatagrams(t *testing.T, dst, src uint32) int {
	for {
		fd, err := unixsock.New()
		require.NoError(t, err)
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: socketName(dst)})
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

// sourcesOf returns how many connections a queue pair has accepted, for each user.
func sourcesOf(p *localPath) map[uint32]int {
	n := make(map[uint32]int)
	for _, src := range p.sources {
		n[src.uid]++
	}
	return n
}

// receiveFrom receives a datagram from each of n senders. It posts all buffers first,
// because one poll can receive several datagrams.
func receiveFrom(e *qptest.End, n int) {
	e.T.Helper()
	from := make(map[uint32]bool)
	for posted, polls := 0, 0; len(from) < n; polls++ {
		require.Less(e.T, polls, qptest.PollLimit, "%d of %d", len(from), n)
		for posted < n && posted < len(from)+2*datagramBudget {
			e.Recv(0, 0, 100)
			posted++
		}
		k, err := e.CQ.Poll(e.WC)
		require.NoError(e.T, err)
		for _, wc := range e.WC[:k] {
			require.False(e.T, from[wc.SrcQPN])
			from[wc.SrcQPN] = true
		}
	}
}

// When a user has reached the limit, a new connection replaces the user's connection
// that was idle for the longest time.
func TestDatagramUserLimit(t *testing.T) {
	peerproc.NeedsRoot(t)
	const userConns = 3
	d := newLocalDevice(t, userConns, peerproc.User)
	b, other := newDatagramEnd(t, d, verbs.ProgressManual), newDatagramEnd(t, d, verbs.ProgressManual)
	own := uint32(os.Geteuid())
	for i := range userConns + 2 {
		connectDatagrams(t, b.QP.Num(), uint32(i+2))
	}
	receiveFrom(b, userConns+2)

	const senders = 10
	line, kill := peerproc.Start(t, "datagram-senders", fmt.Sprint(b.QP.Num(), senders))
	require.Equal(t, "sent", line())
	receiveFrom(b, senders)
	require.Equal(t, map[uint32]int{own: userConns + 2, peerproc.User: userConns}, sourcesOf(d.local(b)))
	require.False(t, d.cfg.Limit.Acquire(peerproc.User), "listeners have no room for this user, either")
	require.Empty(t, d.Counted())

	line, killOther := peerproc.Start(t, "datagram-senders", fmt.Sprint(other.QP.Num(), senders))
	require.Equal(t, "sent", line())
	receiveFrom(other, senders)
	require.Empty(t, sourcesOf(d.local(other)))
	require.Equal(t, map[string]uint64{"user_limit_err": senders}, d.Counted())
	killOther()

	kill()
	b.PollN(untilEpoll)
	require.Equal(t, map[uint32]int{own: userConns + 2}, sourcesOf(d.local(b)))
	require.Equal(t, sourcesOf(d.local(b)), d.cfg.Limit.Counts())
	require.NoError(t, b.QP.Close())
	require.Empty(t, d.cfg.Limit.Counts(), "the connections are not counted any more")
}

// One user may open more connections than a queue pair keeps. The connections of other
// users stay open.
func TestDatagramSendersOfOneUser(t *testing.T) {
	peerproc.NeedsRoot(t)
	d := newLocalDevice(t, -1, access.AnyUser)
	b := newDatagramEnd(t, d, verbs.ProgressManual)
	for i := range uint32(2) {
		connectDatagrams(t, b.QP.Num(), i+2)
	}
	receiveFrom(b, 2)
	const senders = maxDatagramSources + 10
	_, kill := peerproc.Start(t, "datagram-senders", fmt.Sprint(b.QP.Num(), senders))
	receiveFrom(b, senders)
	require.Equal(t, map[uint32]int{uint32(os.Geteuid()): 2, peerproc.User: maxDatagramSources - 2}, sourcesOf(d.local(b)))
	kill()
}

func TestEvictionCandidate(t *testing.T) {
	p := &localPath{sources: make(map[int]*localSource)}
	require.Nil(t, p.evictionCandidate(1))
	add := func(uid uint32) *localSource {
		p.uses++
		src := &localSource{local: p, uid: uid, lastUse: p.uses}
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
	d := newLocalDevice(t, -1)
	e := newDatagramEnd(t, d, verbs.ProgressManual)
	p := d.local(e)
	peerproc.Say(fmt.Sprint(e.QP.Num()))
	receiveFrom(e, 3)
	peerproc.ExhaustDescriptors(t)
	peerproc.Say("full")

	for d.Counted()["datagram_user_refused"] == 0 {
		e.PollN(untilEpoll)
	}
	require.Len(t, p.sources, 3, "a user who is not allowed costs no connection")
	wantSpare(t, d)
	peerproc.Say("refused")

	receiveFrom(e, 1)
	require.Len(t, p.sources, 3)
	wantSpare(t, d)
	for _, src := range p.sources {
		src.close()
	}
	peerproc.TakeDescriptors(t)
	peerproc.Say("taken")

	// Without a free descriptor and without another connection, the queue pair reads one
	// datagram of a new connection and closes it.
	receiveFrom(e, 1)
	require.Empty(t, p.sources)
	require.Positive(t, d.Counted()["no_descriptors_err"])
	wantSpare(t, d)
	peerproc.Say("done")
	peerproc.Linger()
}

// wantSpare checks that this process can open no more descriptors, and that the device has
// all its spare descriptors.
func wantSpare(t *testing.T, d *datagramDevice) {
	t.Helper()
	_, err := fdevent.NewEvent()
	require.ErrorIs(t, err, unix.EMFILE)
	require.True(t, d.cfg.Spare.Fill())
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
