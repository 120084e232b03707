//go:build linux

package udp

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// A directRig has a Conn with one open route, and peers that send to it from ports of
// their own.
type directRig struct {
	t     *testing.T
	owner *testOwner
	ports *Ports
	conn  *Conn
	route Route
	loop  *loopback
	got   *basket // packets that the Conn has received
}

func newDirectRig(t *testing.T, addr string) *directRig {
	r := &directRig{t: t, owner: newTestOwner(t), ports: testPorts(freeport.UDP(t), testSlots), loop: newLoopback(t), got: &basket{}}
	home := netip.MustParseAddr(addr)
	r.conn = NewConn(&Config{Ports: r.ports, Shards: one, Sink: r.got, Watcher: r.owner, Counts: new(counters.Set)})
	r.route = Route{Local: home, Remote: home}
	r.open()
	t.Cleanup(func() { r.conn.Close(&r.route) })
	return r
}

func (r *directRig) open() { require.NoError(r.t, r.conn.Open(&r.route)) }

func (r *directRig) direct() *directSocket { return &r.route.socket.direct }

// A directPeer sends packets to a directRig. The packets of each peer have the PSNs 0, 1,
// 2 and so on.
type directPeer struct {
	t    *testing.T
	fd   int
	flow wire.Flow
	loop *loopback
	sent uint32
}

// peer returns a peer that has sent nothing.
func (r *directRig) peer() *directPeer {
	fd, err := OpenSender(r.route.Local)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, unix.Close(fd)) })
	at, err := hostport.LocalAddr(fd)
	require.NoError(r.t, err)
	to := netip.AddrPortFrom(r.route.Local, r.ports.udpPort)
	p := &directPeer{t: r.t, fd: fd, loop: r.loop}
	p.flow.Set(at, to)
	require.NoError(r.t, unix.Connect(fd, hostport.Sockaddr(to.Addr(), int(to.Port()))))
	require.NoError(r.t, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, neverFragment))
	return p
}

// send sends packets to a queue pair of slot 0, and waits until they have arrived.
func (p *directPeer) send(packets int) {
	for range packets {
		q := wire.Build(make([]byte, packetBufSize), wire.SendOnly, 64)
		q.BTH().SetDestQP(2 * testSlots)
		q.BTH().SetPSN(psn.New(p.sent))
		p.flow.Seal(q, uint16(p.sent))
		_, err := unix.Write(p.fd, q.Bytes())
		require.NoError(p.t, err)
		p.sent++
	}
	p.loop.drain(p.t)
}

// poll calls Conn.Poll in rounds of firstEvery calls, until a round finds no packets.
func (r *directRig) poll() {
	for before := -1; len(r.got.numIDs) > before; {
		before = len(r.got.numIDs)
		for range firstEvery {
			r.conn.Poll(false)
		}
	}
}

// carry sends packets one after another, and receives them.
func (r *directRig) carry(p *directPeer, packets int) {
	for range packets {
		p.send(1)
		r.poll()
	}
}

// begin makes the Conn receive from the peer through its direct socket.
func (r *directRig) begin(p *directPeer) {
	r.t.Helper()
	r.carry(p, r.direct().wait)
	require.Equal(r.t, directOn, r.direct().state)
	require.NotEqual(r.t, r.route.socket.fd, r.route.socket.recv.fd)
}

// requireAll checks that all packets have arrived in order. The order of the parameters
// is the order in which the peers have sent: all packets of one peer, then all of the
// next.
func (r *directRig) requireAll(peers ...*directPeer) {
	r.t.Helper()
	var want []psn.Value
	for _, p := range peers {
		for num := range p.sent {
			want = append(want, psn.New(num))
		}
	}
	require.Len(r.t, r.got.numIDs, len(want), "counters %v", r.conn.cfg.Counts)
	require.True(r.t, slices.Equal(want, r.got.numIDs), "in order")
}

// A source that sends many packets gets a direct socket. Packets that wait in the
// shard's first socket are received before the packets in the direct socket.
func TestDirectSocketBegins(t *testing.T) {
	for _, addr := range []string{"127.9.0.3", "::1"} {
		r := newDirectRig(t, addr)
		p := r.peer()
		r.carry(p, firstDirectWait-1)
		require.Equal(t, directOff, r.direct().state)
		p.send(100)
		r.poll()
		require.Equal(t, directOn, r.direct().state)
		r.carry(p, 100)
		p.send(100)
		r.poll()
		r.requireAll(p)
	}
}

// While packets of two sources arrive, there is no direct socket.
func TestDirectSocketNeedsOneSource(t *testing.T) {
	r := newDirectRig(t, "127.9.0.3")
	p, other := r.peer(), r.peer()
	for range 3 {
		r.carry(p, firstDirectWait-1)
		r.carry(other, 1)
	}
	require.Equal(t, directOff, r.direct().state)
}

// The shard receives packets of other sources while the direct socket is open. Many such
// packets lead to directOff. Afterwards, twice as many packets of one source are needed
// for a direct socket.
func TestDirectSocketOtherSource(t *testing.T) {
	r := newDirectRig(t, "127.9.0.3")
	p, other := r.peer(), r.peer()
	r.begin(p)
	r.carry(p, minDirectPackets)
	r.carry(other, 1)
	require.Equal(t, directOn, r.direct().state)
	r.carry(p, minDirectPackets)
	r.carry(other, 2)
	require.Equal(t, directOff, r.direct().state)
	require.Equal(t, r.route.socket.fd, r.route.socket.recv.fd)
	require.Len(t, r.got.numIDs, int(p.sent+other.sent))
	r.carry(p, 10)
	r.carry(other, 2*firstDirectWait-1)
	require.Equal(t, directOff, r.direct().state)
	r.carry(other, 1)
	require.Equal(t, directOn, r.direct().state)
	r.carry(other, 10)
	require.Len(t, r.got.numIDs, int(p.sent+other.sent))
}

// Before the owner sleeps, the Conn reads the direct socket until it is empty, and stops
// using it. Epoll reports packets that arrive later.
func TestDirectSocketBeforeSleep(t *testing.T) {
	r := newDirectRig(t, "127.9.0.3")
	p := r.peer()
	r.begin(p)
	p.send(100)
	r.conn.Arm()
	require.Equal(t, 1, r.owner.signals, "the owner must not sleep yet")
	r.poll()
	require.Equal(t, directOff, r.direct().state)
	r.requireAll(p)
	r.conn.Arm()
	require.Equal(t, 1, r.owner.signals)
	p.send(1)
	r.owner.handleReady()
	r.requireAll(p)
}

// When another shard begins to use the address, this shard closes its direct socket.
// Otherwise the direct socket would receive packets of the other shard.
func TestDirectSocketSecondShard(t *testing.T) {
	r := newDirectRig(t, "127.9.0.3")
	p := r.peer()
	r.begin(p)
	p.send(100)
	second := NewConn(&Config{Ports: r.ports, Slot: 1, Shards: one, Sink: r.got, Watcher: r.owner, Counts: new(counters.Set)})
	route := Route{Local: r.route.Local, Remote: r.route.Local}
	require.NoError(t, second.Open(&route))
	defer second.Close(&route)
	r.poll()
	require.Equal(t, directOff, r.direct().state)
	r.carry(p, 2*firstDirectWait)
	require.Equal(t, directOff, r.direct().state)
	r.requireAll(p)
}

// Drain receives the packets in the direct socket and in the first socket.
func TestDirectSocketDrain(t *testing.T) {
	r := newDirectRig(t, "127.9.0.3")
	p, other := r.peer(), r.peer()
	r.begin(p)
	p.send(10)
	other.send(10)
	require.True(t, r.conn.Drain(false))
	r.requireAll(p, other)
	require.Equal(t, directOn, r.direct().state)
}

// A closed route leaves no direct socket behind.
func TestDirectSocketReopened(t *testing.T) {
	r := newDirectRig(t, "127.9.0.3")
	hold, err := r.ports.acquire(r.route.Local)
	require.NoError(t, err)
	defer hold.release()
	p := r.peer()
	r.begin(p)
	r.conn.Close(&r.route)
	r.open()
	r.carry(p, firstDirectWait-1)
	require.Equal(t, directOff, r.direct().state)
	r.carry(p, 10)
	require.Equal(t, directOn, r.direct().state)
	r.requireAll(p)
}

// When the shard opens overflow sockets, it closes the direct socket. No packet is lost
// or reordered.
func TestDirectSocketOverflow(t *testing.T) {
	r := newDirectRig(t, "127.9.0.3")
	p := r.peer()
	r.begin(p)
	p.send(100)
	r.route.socket.overflow.widen()
	require.NotEmpty(t, r.route.socket.overflow.sockets)
	r.poll()
	require.Equal(t, directOff, r.direct().state)
	r.carry(p, 10)
	r.owner.handleReady()
	r.conn.PollOverflow()
	r.requireAll(p)
}

// If a second route of the shard wants headers, the shard closes the direct socket. The
// first socket reports the headers.
func TestDirectSocketHeaders(t *testing.T) {
	r := newDirectRig(t, "127.9.0.3")
	p := r.peer()
	r.begin(p)
	route := Route{Local: r.route.Local, Remote: r.route.Local, WantHeader: true}
	require.NoError(t, r.conn.Open(&route))
	defer r.conn.Close(&route)
	r.poll()
	require.Equal(t, directOff, r.direct().state)
	require.NoError(t, unix.SetsockoptInt(p.fd, unix.IPPROTO_IP, unix.IP_TOS, 8))
	r.carry(p, 1)
	r.requireAll(p)
	require.EqualValues(t, 8, r.route.socket.recv.from.header.TrafficClass)
}

// If a route of the shard wants times, the shard closes the direct socket, and packets of all
// sockets have times. When no route is left, new sockets report none.
func TestDirectSocketTimes(t *testing.T) {
	r := newDirectRig(t, "127.9.0.3")
	p := r.peer()
	r.begin(p)
	route := Route{Local: r.route.Local, Remote: r.route.Local, WantTime: true}
	require.NoError(t, r.conn.Open(&route))
	p.send(1)
	r.poll()
	require.Equal(t, directOff, r.direct().state)
	require.NotZero(t, r.route.socket.recv.from.header.Time, "a packet of the direct socket")
	r.route.socket.recv.from.header.Time = 0
	r.carry(p, 1)
	require.NotZero(t, r.route.socket.recv.from.header.Time, "a packet of the first socket")
	r.route.socket.overflow.widen()
	require.NotEmpty(t, r.route.socket.overflow.sockets)
	for _, socket := range r.route.socket.overflow.sockets {
		on, err := unix.GetsockoptInt(socket.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS)
		require.NoError(t, err)
		require.Equal(t, 1, on)
	}
	r.requireAll(p)

	r.conn.Close(&r.route)
	r.conn.Close(&route)
	require.Empty(t, r.conn.sockets)
	r.open()
	require.Zero(t, r.route.socket.recv.reports)
}

// Merged packets arrive through a direct socket. Merged packets that wait in the direct
// socket when it is closed arrive too.
func TestDirectSocketMerges(t *testing.T) {
	r := newDirectRig(t, "127.9.0.3")
	p := r.peer()
	r.begin(p)
	recv := &r.route.socket.recv
	recv.merging.enter(mergeOn, true)
	recv.changeMerging()
	p.send(10)
	r.poll()
	r.conn.Arm()
	p.send(10)
	r.poll()
	require.Equal(t, mergeOff, recv.merging.state)
	r.carry(p, 10)
	r.requireAll(p)
}
