//go:build linux

package udp

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// passIdentified is a BPF program that passes packets if their PSN is equal to the
// identification in the IP header.
var passIdentified = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 0xfff00004},
	{Code: unix.BPF_MISC | unix.BPF_TAX},
	// low 16 bits of the PSN: the last two bytes of the BTH, which follows the UDP
	// header
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 8 + 10},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_X, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 16},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
}

// An identified is a Sink. For each packet it finds out which identification the ICRC
// covers.
type identified struct {
	flow wire.Flow
	to   netip.AddrPort
	from netip.AddrPort
	ids  []uint16
}

func (r *identified) Receive(p wire.Packet, _ *Header) bool {
	r.flow.Set(r.from, r.to)
	id, _ := r.flow.Verify(p)
	r.ids = append(r.ids, id)
	return true
}

// The sender computes ICRCs with the identifications that the kernel writes.
func TestConnectedSocketKnowsTheIPID(t *testing.T) {
	for _, segment := range []bool{true, false} {
		r := newRig(t, "127.9.0.1", "127.9.0.2")
		require.NoError(t, r.to.connect())
		require.NotNil(t, r.to.socket)
		r.send.segmentation = segment
		require.NoError(t, attachFilter(r.recv.fd, unix.SO_ATTACH_FILTER, passIdentified))
		got := &identified{from: r.to.socket.local, to: r.recv.local}
		var want []uint16
		for _, sizes := range [][]int{{64}, {64}, {8, 8, 8, 8}, {64}, {100, 8, 8, 4, 100, 100}, {1}, {2}} {
			want = append(want, r.sendWithIDs(sizes)...)
			for r.recv.receive(got) > 0 {
			}
		}
		require.Equal(t, want, got.ids, "with segments: %v", segment)
	}
}

// sendWithIDs sends packets with payloads of the given sizes. The PSN of each packet is
// the expected identification of the packet. sendWithIDs returns the identifications of
// all packets.
func (r *rig) sendWithIDs(sizes []int) (ids []uint16) {
	for _, n := range sizes {
		r.queue(n)
	}
	id := r.to.socket.nextID
	for i := 0; i < len(sizes); {
		n := r.send.segmentsFrom(i)
		for k := range n {
			r.send.packets[i+k].BTH().SetPSN(psn.New(uint32(id) + uint32(k)))
			ids = append(ids, id+uint16(k))
		}
		i += n
		id++
	}
	r.flush()
	require.Zero(r.t, r.send.queued)
	return ids
}

// No packet is lost or reordered when a destination gets a connected socket.
func TestConnectAfterManyPackets(t *testing.T) {
	for _, addr := range []string{"127.9.0.1", "::1"} {
		r := oneSocket(t, addr)
		r.to.untilConnect = connectAfter
		for i := range 2 * connectAfter {
			require.Equal(t, i >= connectAfter, r.to.socket != nil, "after %d packets", i)
			r.queue(i)
			r.flush()
		}
		got := r.received()
		require.Len(t, got.sizes, 2*connectAfter)
		for i, n := range got.sizes {
			require.Equal(t, i, n, "in order")
		}
		r.to.disconnect()
	}
}

// Between two polls, only one destination gets a connected socket.
func TestConnectOneInEachPoll(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	var dests []*destination
	for range 4 {
		d := &destination{untilConnect: 2}
		d.set(r.to.local, r.to.header)
		dests = append(dests, d)
		defer d.disconnect()
	}
	connected := func() (n int) {
		for _, d := range dests {
			r.to = d
			r.queue(8)
			if d.socket != nil {
				n++
			}
		}
		r.flush()
		r.received()
		return n
	}
	require.Zero(t, connected())
	for turn := range len(dests) {
		require.Equal(t, turn+1, connected())
		require.Equal(t, turn+1, connected(), "no other destination is connected before the next poll")
		u := &localSocket{conn: &Conn{}, send: r.send, recv: r.recv, direct: directSocket{wait: firstDirectWait}}
		u.poll()
		r.send = u.send
	}
}

// Packets are sent in order, even if the shared socket and connected sockets alternate.
func TestConnectedAndSharedSocketInOrder(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	plain, own := r.to, &destination{}
	own.set(plain.local, plain.header)
	require.NoError(t, own.connect())
	defer own.disconnect()
	var want []int
	for i := range 40 {
		r.to = []*destination{plain, own}[i/3%2]
		r.queue(i)
		want = append(want, i)
	}
	r.flush()
	require.Equal(t, want, r.received().sizes)
}

// If a connected socket reports an error of an earlier packet, the shared socket sends
// the next packet.
func TestConnectedSocketRefused(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	refused := &destination{}
	refused.set(r.to.local, destHeader{remote: netip.MustParseAddr("127.9.0.3")})
	require.NoError(t, refused.connect())
	require.NotNil(t, refused.socket)
	there := r.to
	for _, dest := range []*destination{refused, there, refused, there} {
		r.to = dest
		r.queue(10)
		r.flush()
		require.Zero(t, r.send.queued)
	}
	require.Nil(t, refused.socket)
	require.Equal(t, 2*connectAfter, refused.untilConnect, "until the next attempt")
	require.Zero(t, r.count(counters.SendErr))
	require.Len(t, r.received().sizes, 2)
}

// If the kernel accepts the first message and refuses the second one, the sender closes
// the connected socket.
func TestConnectedSocketFailsAfterFirstMessage(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	r.send.segmentation = false
	local := r.to.local
	r.to = &destination{}
	r.to.set(local, destHeader{remote: netip.MustParseAddr("127.9.0.3")})
	require.NoError(t, r.to.connect())
	require.NotNil(t, r.to.socket)
	// No process receives at 127.9.0.3, so the kernel gets an ICMP error for the first
	// message. The call that sends the second message returns that error.
	for range 3 {
		r.queue(10)
	}
	r.flush()
	require.Nil(t, r.to.socket)
	require.Zero(t, r.send.queued)
}

// A connected socket stays open when it is full.
func TestConnectedSocketFull(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	r.send.segmentation = false
	// A Unix socket replaces the connected UDP socket, because a UDP socket never fills
	// up on the loopback interface.
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	defer unix.Close(pair[1])
	// the smallest send buffer that the kernel allows
	require.NoError(t, unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 0))
	out := &connectedSocket{fd: pair[0], countsIDs: true}
	r.to.socket = out
	defer r.to.disconnect()
	for range sendBatch {
		r.queue(8)
	}
	var b [packetBufSize]byte
	flushes := 0
	for sent := 0; sent < sendBatch; flushes++ {
		r.flush()
		require.Same(t, out, r.to.socket)
		require.Greater(t, sendBatch-r.send.queued, sent)
		sent = sendBatch - r.send.queued
		require.EqualValues(t, sent, out.nextID)
		for err = nil; err == nil; {
			_, err = unix.Read(pair[1], b[:])
		}
	}
	require.Greater(t, flushes, 1, "the socket was full")
}

// The probe ignores datagrams of other senders.
func TestIPIDProbeIgnoresOtherSenders(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	require.NoError(t, r.to.connect())
	defer r.to.disconnect()
	out := r.to.socket
	reader := ipIDProbe{from: out}
	var err error
	reader.fd, err = hostport.UDPSocket(out.local.Addr())
	require.NoError(t, err)
	defer unix.Close(reader.fd)
	require.NoError(t, reader.bind(out.local.Addr()))
	for range 2 * probesPerRead {
		require.NoError(t, unix.Sendto(r.send.shared.fd, make([]byte, probeSize), 0, reader.at))
	}
	require.NoError(t, reader.connect(out.local))
	last, err := reader.readID()
	require.NoError(t, err)
	require.Equal(t, out.nextID+probesPerRead-1, last)
}

// The number of connected sockets is limited.
func TestConnectedSocketsAreBounded(t *testing.T) {
	u := &localSocket{conn: NewConn(&Config{Shards: one}), port: &localPort{local: netip.MustParseAddrPort("127.9.0.1:9")},
		connDests: make(map[destHeader]*destination), udDests: make(map[destHeader]*destination)}
	remote := netip.MustParseAddr("10.0.0.1")
	var dests []*destination
	for range maxConnected {
		dests = append(dests, u.dest(destHeader{remote: remote}, true))
		require.Equal(t, connectAfter, dests[len(dests)-1].untilConnect)
		remote = remote.Next()
	}
	require.Zero(t, u.dest(destHeader{remote: remote}, true).untilConnect)
	require.Same(t, dests[0], u.dest(dests[0].header, true), "routes with the same header share a destination")
	datagrams := u.dest(dests[0].header, false)
	require.NotSame(t, dests[0], datagrams, "UD queue pairs do not share it")
	require.Zero(t, datagrams.untilConnect, "UD queue pairs get no connected socket")
	u.releaseDest(datagrams)
	require.Empty(t, u.udDests)
	u.releaseDest(dests[0])
	require.Contains(t, u.connDests, dests[0].header)
	u.releaseDest(dests[0])
	require.NotContains(t, u.connDests, dests[0].header)
}

// If a connected socket can not be opened, the destination uses the shared socket.
func TestConnectFails(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	peer := r.to.header.remote
	for why, spoil := range map[string]func(*destination){
		"no such family":              func(d *destination) { d.header.remote = netip.Addr{} },
		"not an address of this host": func(d *destination) { d.local = netip.MustParseAddrPort("192.0.2.1:4791") },
	} {
		d := &destination{}
		d.set(r.to.local, destHeader{remote: peer})
		d.untilConnect = 2
		spoil(d)
		for range 4 {
			_, _ = d.countPacket(true)
		}
		require.Nil(t, d.socket, why)
		require.Zero(t, d.untilConnect, "%s: it is not tried again", why)
	}
}

// After watch() a connected socket wakes its owner once.
func TestConnectedSocketWakesOwner(t *testing.T) {
	s := newTestOwner(t)
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	require.NoError(t, r.to.connect())
	var woken wakeCounter
	for want := 1; want <= 3; want++ {
		r.to.socket.watch(s, &woken)
		s.handleReady()
		s.handleReady()
		require.EqualValues(t, want, woken)
	}
	fd := r.to.socket.fd
	require.NotNil(t, s.epoll.Handler(fd))
	r.to.disconnect()
	require.Nil(t, s.epoll.Handler(fd))
}

// A wakeCounter is an fdevent.Handler that counts events.
type wakeCounter int

func (w *wakeCounter) OnReady(int, uint32) { *w++ }

func BenchmarkConnect(b *testing.B) {
	b.ReportAllocs()
	at := netip.AddrPortFrom(netip.MustParseAddr("127.9.0.1"), 1)
	peer := netip.MustParseAddrPort("127.9.0.2:9")
	for b.Loop() {
		o, err := newConnectedSocket(at.Addr(), peer, destHeader{remote: peer.Addr()})
		require.NoError(b, err)
		o.close()
	}
}
