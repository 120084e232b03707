//go:build linux

package soft

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// defaultRmemMax is the default of net.core.rmem_max.
const defaultRmemMax = 212992

// A fanRig is a socket with the default buffer, to which many connections send at
// once.
type fanRig struct {
	*counterRig
	u    *udpSocket
	ends []*countingQP
}

func newFanRig(t *testing.T, connections int) *fanRig {
	c := newCounterRig(t)
	f := &fanRig{counterRig: c, u: c.route.socket}
	c.shard.wire.detach(c.qpn)
	f.shrink(f.u.fd)
	for i := range connections {
		f.ends = append(f.ends, &countingQP{})
		c.shard.wire.attach(f.number(i), f.ends[i])
	}
	t.Cleanup(func() { c.shard.udp.close(&c.route) })
	return f
}

// shrink sets the receive buffer of a socket to the default.
func (f *fanRig) shrink(fd int) {
	require.NoError(f.t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, defaultRmemMax))
}

// number returns the queue pair number of connection i.
func (f *fanRig) number(i int) uint32 { return f.qpn + uint32(i)*f.dev.cfg.slots() }

// burst sends the first window of every connection, and returns how many connections
// received at least one packet.
func (f *fanRig) burst(packets int) (served int) {
	for i, e := range f.ends {
		e.got = 0
		f.fire(i, packets)
	}
	f.drive()
	for _, e := range f.ends {
		if e.got > 0 {
			served++
		}
	}
	return served
}

// fire sends packets of one connection.
func (f *fanRig) fire(i, packets int) {
	p := wire.Build(make([]byte, wire.SendMiddle.Size(1024)), wire.SendMiddle, 1024)
	p.BTH().SetDestQP(f.number(i))
	p.BTH().SetPSN(psn.New(1))
	f.to.flow.Seal(p, 0)
	for range packets {
		f.sendRaw(p.Bytes())
	}
}

// drive makes the shard read all packets that have arrived.
func (f *fanRig) drive() {
	for range 2 * epollEvery {
		f.shard.drive()
	}
}

// After a socket has dropped packets, the shard opens further sockets, and in the
// next round most connections receive packets.
func TestReliefOfAFullSocket(t *testing.T) {
	const connections, window = 100, 128
	f := newFanRig(t, connections)
	require.Less(t, f.burst(window), 10, "two of them fill the socket")
	require.Len(t, f.u.relief.sockets, maxReceiveSockets-1)
	for _, socket := range f.u.relief.sockets {
		f.shrink(socket.fd)
	}
	require.GreaterOrEqual(t, f.burst(window), maxReceiveSockets-4)
	for range 3 {
		f.burst(window)
	}
	require.Len(t, f.u.relief.sockets, maxReceiveSockets-1, "that is all there will be")
}

// Every packet arrives exactly once, and the packets of a connection in order, at any
// socket.
func TestReliefLosesNothing(t *testing.T) {
	f := newFanRig(t, 2*maxReceiveSockets)
	f.u.relief.widen()
	require.Equal(t, len(f.ends), f.burst(2))
	for _, e := range f.ends {
		require.Equal(t, 2, e.got)
	}
	require.Equal(t, maxReceiveSockets-1, f.shard.datagrams, "the shard looks for them")
}

// Packets may wait in an additional socket while the first socket is read. The receiver
// knows that they are older, and takes what their sender sends after a pause.
func TestReliefKnowsWhenPacketsCame(t *testing.T) {
	f := newFanRig(t, 2)
	f.u.relief.widen()
	now := time.Duration(0)
	f.u.recv.clock = func() time.Duration { return now }
	others := 0 // the connection whose packets come to the first socket
	for f.number(others)/f.dev.cfg.slots()%maxReceiveSockets != 0 {
		others++
	}
	send := func(i int, id uint16) {
		p := wire.Build(make([]byte, wire.SendOnly.Size(64)), wire.SendOnly, 64)
		p.BTH().SetDestQP(f.number(i))
		f.to.flow.Seal(p, id)
		f.sendRaw(p.Bytes())
	}
	const old = 1000
	waits := others + 1
	send(waits, old)
	for range 3 * stampEvery {
		now += 10 * time.Millisecond
		send(others, old+1)
		for f.u.recv.receive(f.u) > 0 {
		}
	}
	require.Positive(t, f.u.recv.since, "the first socket knows when its packets came")
	f.u.relief.drain()
	send(waits, old+50_000)
	f.u.relief.drain()
	require.Empty(t, countsOf(t, f.dev)["rcvd_ident_err"])
	counts := countsOf(t, f.dev)
	require.EqualValues(t, 3*stampEvery+2, counts["rcvd_pkts"]+counts["rcvd_no_qp_err"], "all have come")
}

// A socket that drops no packets gets no further sockets, however many packets
// arrive.
func TestNoReliefWithoutDrops(t *testing.T) {
	f := newFanRig(t, 1)
	for range 20 {
		f.burst(150)
	}
	require.Empty(t, countsOf(t, f.dev)["rcvd_overrun_err"])
	require.Empty(t, f.u.relief.sockets)
}

// A shard that opens an address again takes over the sockets that it had there.
func TestReliefIsTakenOver(t *testing.T) {
	f := newFanRig(t, 2*maxReceiveSockets)
	f.u.relief.widen()
	port, err := f.dev.udp.acquire(f.route.local) // so that the port stays open
	require.NoError(t, err)
	defer port.release()
	f.shard.udp.close(&f.route)
	require.Zero(t, f.shard.datagrams)
	require.NoError(t, f.shard.udp.open(&f.route))
	f.u = f.route.socket
	require.Len(t, f.u.relief.sockets, maxReceiveSockets-1)
	require.Equal(t, len(f.ends), f.burst(1))
}

// leaveDescriptors takes all descriptors of this process except n. The function that it
// returns gives them back.
func leaveDescriptors(t *testing.T, n int) (giveBack func()) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = min(1024, limit.Max)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	var fds []int
	giveBack = func() {
		unixsock.CloseAll(fds)
		fds = nil
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	}
	t.Cleanup(giveBack)
	for {
		fd, err := eventfd.New()
		if resource.NoDescriptors(err) {
			break
		}
		require.NoError(t, err)
		fds = append(fds, fd)
	}
	unixsock.CloseAll(fds[len(fds)-n:])
	fds = fds[:len(fds)-n]
	return giveBack
}

// If descriptors run out, the shard keeps half of the sockets that it could open. It
// tries again when twice as many packets were dropped.
func TestReliefWithFewDescriptors(t *testing.T) {
	const left = 20
	f := newFanRig(t, 1+left/2)
	giveBack := leaveDescriptors(t, left)
	const packets = 400
	f.fire(0, packets)
	f.drive()
	require.Len(t, f.u.relief.sockets, left/2)
	require.Len(t, f.u.port.members, 1+left/2)
	giveBack()

	i := 0 // the connection whose packets still come to the first socket
	for f.number(i)/f.dev.cfg.slots()%(1+left/2) != 0 {
		i++
	}
	limit := 2 * droppedAt(f.u.fd)
	require.Positive(t, limit)
	for droppedAt(f.u.fd) < limit {
		require.Len(t, f.u.relief.sockets, left/2)
		f.fire(i, packets)
		f.drive()
	}
	require.Len(t, f.u.relief.sockets, maxReceiveSockets-1)
}

// The sockets of a shard use a bounded part of the descriptors and a bounded amount
// of memory.
func TestReliefIsBounded(t *testing.T) {
	f := newFanRig(t, 1)
	require.Equal(t, maxReceiveSockets-1, f.u.relief.room())
	if unix.SetsockoptInt(f.u.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveMemory/8) == nil {
		require.Equal(t, 4-1, f.u.relief.room(), "the system doubles what is asked for")
	}
	f.shrink(f.u.fd)
	f.dev.cfg.Vectors = 1 << 20
	require.Negative(t, f.u.relief.room())
	f.dev.cfg.Vectors = 1
}

// However many sockets shards have added, each slot has a place for its first one.
func TestReliefLeavesPlacesForOtherShards(t *testing.T) {
	const vectors = 64
	ports := testPorts(freePort(t), 2*vectors)
	port, err := ports.acquire(netip.MustParseAddr("127.9.0.1"))
	require.NoError(t, err)
	defer port.release()
	wide := 0
	for slot := range ports.slots {
		fds, err := port.join(slot)
		require.NoError(t, err, "slot %d of %d", slot, ports.slots)
		require.Len(t, fds, 1)
		if len(port.widen(slot, maxReceiveSockets-1)) > 1 {
			wide++
		}
		require.LessOrEqual(t, len(port.members), maxMembers)
	}
	require.Len(t, port.members, maxMembers, "all places are used")
	require.Equal(t, 14, wide, "872 sockets more, and 63 for a shard")
}
