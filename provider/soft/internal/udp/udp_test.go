//go:build linux

package udp

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

func testPorts(port uint16, slots uint32) *Ports {
	return NewPorts(port, slots, false)
}

// A basket is a Sink that keeps some fields of each packet.
type basket struct {
	qpns   []uint32
	sizes  []int
	from   []netip.Addr
	numIDs []psn.Value
}

func (b *basket) Receive(p wire.Packet, from *Header) bool {
	b.qpns = append(b.qpns, p.BTH().DestQP())
	b.sizes = append(b.sizes, len(p.Payload()))
	b.numIDs = append(b.numIDs, p.BTH().PSN())
	b.from = append(b.from, from.From)
	return true
}

// A rig has a sender and a receiver on two addresses.
type rig struct {
	t    testing.TB
	send sender
	recv receiver
	to   *destination
	loop *loopback
	num  int
}

func newRig(t testing.TB, from, to string) *rig {
	t.Helper()
	port := freeport.UDP(t)
	out, src := openTestSocket(t, from, port)
	in, dst := openTestSocket(t, to, port)
	return joinRig(t, out, src, in, dst)
}

// oneSocket returns a rig with one socket for both directions.
func oneSocket(t testing.TB, addr string) *rig {
	t.Helper()
	fd, at := openTestSocket(t, addr, freeport.UDP(t))
	return joinRig(t, fd, at, fd, at)
}

func openTestSocket(t testing.TB, addr string, port uint16) (int, netip.AddrPort) {
	t.Helper()
	at := netip.AddrPortFrom(netip.MustParseAddr(addr), port)
	fd, err := openSocket(at, socketOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return fd, at
}

func joinRig(t testing.TB, out int, src netip.AddrPort, in int, dst netip.AddrPort) *rig {
	counts := new(counters.Set)
	r := &rig{
		t: t, to: &destination{}, loop: newLoopback(t),
		send: newSender(out, sendBatch, packetBufSize, counts),
		recv: newReceiver(in, dst, receiveBatch, packetBufSize, counts),
	}
	r.to.set(src, destHeader{remote: dst.Addr()})
	return r
}

func (r *rig) count(id counters.ID) uint64 { return r.recv.counts.Load(id) }

// queue queues a packet. The parameter payload is the length of its payload in bytes.
func (r *rig) queue(payload int) {
	b := r.send.buffer()
	require.NotNil(r.t, b)
	p := wire.Build(b, wire.SendOnly, payload)
	p.BTH().SetDestQP(0x123)
	p.BTH().SetPSN(psn.New(uint32(r.num)))
	for i := range p.Payload() {
		p.Payload()[i] = byte(r.num)
	}
	r.num++
	r.send.put(p, r.to, 0)
}

// flush sends the queued packets, and waits until they have arrived.
func (r *rig) flush() {
	r.send.flush()
	r.loop.drain(r.t)
}

func (r *rig) received() *basket {
	b := &basket{}
	for r.recv.receive(b) > 0 {
	}
	return b
}

// Packets arrive in order.
func TestSend(t *testing.T) {
	sizes := []int{4096, 4096, 4096, 100, 100, 100, 0, 3, 1, 2, 4096}
	for range 80 {
		sizes = append(sizes, 256)
	}
	for _, segment := range []bool{true, false} {
		t.Run(fmt.Sprintf("segment %v", segment), func(t *testing.T) {
			newRig(t, "127.9.0.1", "127.9.0.2").carry(segment, sizes)
			oneSocket(t, "127.9.0.1").carry(segment, sizes)
			oneSocket(t, "::1").carry(segment, sizes)
		})
	}
}

// carry sends packets with payloads of the given sizes, with or without UDP_SEGMENT. It
// checks that the packets arrive unchanged.
func (r *rig) carry(segment bool, sizes []int) {
	r.t.Helper()
	require.True(r.t, r.send.segmentation, "every supported kernel has UDP_SEGMENT")
	r.send.segmentation = segment
	for _, n := range sizes {
		r.queue(n)
	}
	r.flush()
	got := r.received()
	require.Equal(r.t, sizes, got.sizes)
	for i, num := range got.numIDs {
		require.Equal(r.t, psn.New(uint32(i)), num, "in order")
	}
	require.EqualValues(r.t, len(sizes), r.count(counters.RcvdPkts))
	require.Zero(r.t, r.count(counters.RcvdMalformedErr)+r.count(counters.RxICRCEncapsulated))
	require.EqualValues(r.t, len(sizes), r.count(counters.SentPkts))
	require.Zero(r.t, r.send.queued)
}

// If the kernel refuses UDP_SEGMENT, the sender sends each packet as one message. The
// kernel refuses it for a socket without checksums.
func TestSegmentsRefused(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	require.NoError(t, unix.SetsockoptInt(r.send.shared.fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1))
	for range 10 {
		r.queue(64)
	}
	r.flush()
	require.Len(t, r.received().sizes, 10)
	require.False(t, r.send.segmentation)
	require.Zero(t, r.count(counters.SendErr))
}

// A packet that the kernel always refuses is lost and counted. The packets queued after
// it are sent.
func TestSendRefused(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	good := r.to
	r.queue(10)
	r.to = &destination{} // The kernel refuses a packet to the zero address.
	r.queue(20)
	r.to = good
	r.queue(30)
	r.flush()
	require.Equal(t, []int{10, 30}, r.received().sizes)
	require.EqualValues(t, 1, r.count(counters.SendErr))
}

// Packets that the kernel has not accepted stay queued in order.
func TestSendKeepsOrder(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	for n := range 5 {
		r.queue(n)
	}
	r.send.moveToFront(2)
	require.Equal(t, 3, r.send.queued)
	r.queue(5)
	r.flush()
	require.Equal(t, []int{2, 3, 4, 5}, r.received().sizes)
}

func TestReceiveBadPackets(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	to := unix.SockaddrInet4{Port: int(r.recv.local.Port()), Addr: r.recv.local.Addr().As4()}
	send := func(b []byte) {
		require.NoError(t, unix.Sendto(r.send.shared.fd, b, 0, &to))
		r.loop.drain(t)
	}
	b := make([]byte, packetBufSize)
	good := wire.Build(b, wire.SendOnly, 100)
	r.to.flow.Seal(good, 0)

	send(good.Bytes())
	require.Len(t, r.received().sizes, 1)
	// Offset of the byte of the BTH that the ICRC does not cover.
	const notCovered = 4
	for i := range good.Bytes() {
		if i == notCovered {
			continue
		}
		good.Bytes()[i] ^= 0x10
		send(good.Bytes())
		good.Bytes()[i] ^= 0x10
	}
	send(nil)
	send(good.Bytes()[:40])
	send(make([]byte, packetBufSize+1))
	require.Empty(t, r.received().sizes)
	n := uint64(len(good.Bytes())) - 1 + 3
	require.Equal(t, n, r.count(counters.RcvdMalformedErr)+r.count(counters.RxICRCEncapsulated))
	require.GreaterOrEqual(t, r.count(counters.RcvdMalformedErr), uint64(3))
	require.EqualValues(t, 1, r.count(counters.RcvdPkts))
}

func TestSendAndReceiveDoNotAllocate(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	sink := &counter{}
	allocs := testing.AllocsPerRun(100, func() {
		for range 3 {
			p := wire.Build(r.send.buffer(), wire.SendOnly, 64)
			r.send.put(p, r.to, 0)
		}
		r.flush()
		r.recv.receive(sink)
	})
	require.Zero(t, allocs)
	require.Positive(t, sink.n)
}

// A batch allocates a buffer only when a packet needs it.
func TestBuffersAreMadeWhenNeeded(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	made := func(b *batch) (n int) {
		for _, buffer := range b.buffers {
			n += len(buffer)
		}
		return n / packetBufSize
	}
	require.Zero(t, made(r.send.batch)+made(r.recv.batch))
	r.queue(64)
	r.flush()
	require.Equal(t, []int{64}, r.received().sizes)
	require.Equal(t, 1, made(r.send.batch))
	require.Equal(t, 1, made(r.recv.batch))
	for range sendBatch {
		r.queue(0)
	}
	r.flush()
	require.Len(t, r.received().sizes, sendBatch)
	require.Equal(t, sendBatch, made(r.send.batch))
	require.Equal(t, receiveBatch, made(r.recv.batch))
}

type counter struct{ n int }

func (c *counter) Receive(wire.Packet, *Header) bool {
	c.n++
	return true
}

// A packet arrives at a socket of its queue pair's shard. Other packets, such as MADs,
// arrive at connection management.
func TestSteer(t *testing.T) {
	const slots = 6
	ports := testPorts(freeport.UDP(t), slots)
	local := netip.MustParseAddr("127.9.0.1")
	port, err := ports.acquire(local)
	require.NoError(t, err)
	defer port.release()
	fds := map[uint32]int{}
	for _, slot := range []uint32{4, 1, 3} {
		joined, err := port.join(slot)
		require.NoError(t, err)
		require.Len(t, joined, 1)
		fds[slot] = joined[0]
		again, err := port.join(slot)
		require.NoError(t, err)
		require.Equal(t, joined, again)
	}
	wide := port.widen(1, 3)
	require.Len(t, wide, 4)
	require.Equal(t, fds[1], wide[0])
	r := oneSocket(t, "127.9.0.2")
	r.to.set(netip.AddrPortFrom(netip.MustParseAddr("127.9.0.2"), r.recv.local.Port()), destHeader{remote: local})
	r.to.nameLen = r.to.name.set(port.local, 0)

	want := map[int][]uint32{}
	for qpn := uint32(0); qpn < 200; qpn++ {
		p := wire.Build(r.send.buffer(), wire.SendOnly, 0)
		p.BTH().SetDestQP(qpn)
		p.BTH()[4] = 0xff // This byte is not part of the queue pair number.
		r.send.put(p, r.to, 0)
		fd, ok := fds[qpn%slots]
		if qpn%slots == 1 {
			fd = wide[qpn/slots%4]
		}
		if qpn == wire.GSIQPN || !ok {
			fd = port.gsi
		}
		want[fd] = append(want[fd], qpn)
	}
	r.flush()
	for fd, qpns := range want {
		require.Equal(t, qpns, rawQPNs(t, fd))
	}
}

// rawQPNs reads all waiting packets of a socket, and returns their destination queue
// pair numbers.
func rawQPNs(t *testing.T, fd int) (qpns []uint32) {
	b := make([]byte, packetBufSize)
	for {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
		if err == unix.EAGAIN {
			return qpns
		}
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, wire.BTHSize)
		qpns = append(qpns, (*wire.BTH)(b).DestQP())
	}
}

// Only one device can have a UDP port of an address. The error for another device says
// what to do.
func TestPortTaken(t *testing.T) {
	mine, theirs := testPorts(freeport.UDP(t), 2), testPorts(0, 2)
	theirs.udpPort = mine.udpPort
	local := netip.MustParseAddr("127.9.0.1")
	port, err := mine.acquire(local)
	require.NoError(t, err)
	_, err = port.join(0)
	require.NoError(t, err)
	again, err := mine.acquire(local)
	require.NoError(t, err)
	require.Same(t, port, again)

	_, err = theirs.acquire(local)
	require.ErrorIs(t, err, cm.ErrAddrInUse)
	for _, advice := range []string{"127.0.0.2", "rdma_rxe", "WirePort"} {
		require.ErrorContains(t, err, advice)
	}
	other, err := theirs.acquire(netip.MustParseAddr("127.9.0.2"))
	require.NoError(t, err)
	other.release()

	port.release()
	_, err = theirs.acquire(local)
	require.ErrorIs(t, err, cm.ErrAddrInUse, "one user is left")
	port.release()
	require.Empty(t, mine.ports)
	port, err = theirs.acquire(local)
	require.NoError(t, err)
	port.release()
}
