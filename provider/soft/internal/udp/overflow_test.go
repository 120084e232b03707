//go:build linux

package udp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
)

// defaultRmemMax is the kernel's default of net.core.rmem_max in bytes.
const defaultRmemMax = 212992

// A fanRig sends packets of many connections to a Conn at once. The Conn has the default
// receive buffer.
type fanRig struct {
	*connRig
	connections int
}

func newFanRig(t *testing.T, connections int) *fanRig {
	f := &fanRig{newConnRig(t), connections}
	f.shrink(f.u.fd)
	return f
}

// shrink sets the receive buffer of a socket to the default size.
func (f *fanRig) shrink(fd int) {
	require.NoError(f.t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, defaultRmemMax))
}

// number returns the queue pair number of connection i.
func (f *fanRig) number(i int) uint32 { return 0x1000 + uint32(i)*testSlots }

// burst sends the given number of packets on each connection, all at once. It returns
// how many connections have received at least one.
func (f *fanRig) burst(packets int) (served int) {
	clear(f.got)
	for i := range f.connections {
		f.fire(i, packets)
	}
	f.drive()
	return len(f.got)
}

// fire sends packets to the queue pair of connection i.
func (f *fanRig) fire(i, packets int) {
	for range packets {
		f.sendTo(f.number(i), 1024, 0)
	}
}

// A shard opens overflow sockets after its socket has dropped packets.
func TestOverflowOfAFullSocket(t *testing.T) {
	const connections, window = 100, 128
	f := newFanRig(t, connections)
	require.Less(t, f.burst(window), 10, "two connections fill the socket")
	require.Len(t, f.u.overflow.sockets, maxReceiveSockets-1)
	require.NotZero(t, f.counted(counters.RcvdOverrunErr))
	for _, socket := range f.u.overflow.sockets {
		f.shrink(socket.fd)
	}
	require.GreaterOrEqual(t, f.burst(window), maxReceiveSockets-4)
	for range 3 {
		f.burst(window)
	}
	require.Len(t, f.u.overflow.sockets, maxReceiveSockets-1, "the limit is reached")
}

// With overflow sockets, every packet arrives exactly once.
func TestOverflowLosesNothing(t *testing.T) {
	f := newFanRig(t, 2*maxReceiveSockets)
	f.u.overflow.widen()
	require.Equal(t, f.connections, f.burst(2))
	for _, packets := range f.got {
		require.Equal(t, 2, packets)
	}
	require.Equal(t, maxReceiveSockets-1, f.conn.OverflowSockets())
}

// received returns how many packets were received on all connections since burst.
func (f *fanRig) received() (n int) {
	for _, packets := range f.got {
		n += packets
	}
	return n
}

// One call of PollOverflow reads few packets, and the sockets take turns.
func TestOverflowSocketsTakeTurns(t *testing.T) {
	const packets = 3 * receiveBatch
	f := newFanRig(t, maxReceiveSockets)
	f.u.overflow.widen()
	for i := range f.connections {
		f.fire(i, packets)
	}
	const socketsPerCall = pollPackets / receiveBatch
	for calls := 1; calls*socketsPerCall < maxReceiveSockets; calls++ {
		f.handleReady()
		require.Equal(t, (calls-1)*pollPackets, f.received(), "only PollOverflow reads overflow sockets")
		f.conn.PollOverflow()
		require.Equal(t, calls*pollPackets, f.received())
		require.Len(t, f.got, calls*socketsPerCall, "a socket was read again before the others")
	}
}

// Each call of Drain reads few packets. After several calls, all sockets are empty.
func TestDrainReadsEverySocket(t *testing.T) {
	const packets = 2 * receiveBatch
	f := newFanRig(t, 2*maxReceiveSockets)
	f.u.overflow.widen()
	for i := range f.connections {
		f.fire(i, packets/2)
	}
	require.False(t, f.conn.Drain(false))
	for before := 0; !f.conn.Drain(true); before = f.received() {
		require.Less(t, f.received()-before, 2*(pollPackets+receiveBatch))
	}
	require.Equal(t, f.connections*packets/2, f.received())
	f.fire(0, 1)
	require.True(t, f.conn.Drain(false))
	require.Equal(t, f.connections*packets/2+1, f.received())
}

// Drain ends even if packets arrive all the time.
func TestDrainEnds(t *testing.T) {
	f := newFanRig(t, 1)
	f.fire(0, pollPackets)
	for resume := false; !f.conn.Drain(resume); resume = true {
		require.LessOrEqual(t, f.received(), drainLimit)
		f.fire(0, pollPackets)
	}
	require.GreaterOrEqual(t, f.received(), drainLimit)
}

// A read of the first socket does not change the arrival times of an overflow socket.
func TestOverflowArrivalTimes(t *testing.T) {
	f := newFanRig(t, 2)
	f.u.overflow.widen()
	now := time.Duration(0)
	f.u.recv.clock = func() time.Duration { return now }
	others := 0 // index of a connection whose packets arrive at the first socket
	for f.number(others)/testSlots%maxReceiveSockets != 0 {
		others++
	}
	send := func(i int, id uint16) { f.sendTo(f.number(i), 64, id) }
	const old = 1000
	waits := others + 1
	send(waits, old)
	for range 3 * stampEvery {
		now += 10 * time.Millisecond
		send(others, old+1)
		for f.u.recv.receive(f.testOwner) > 0 {
		}
	}
	require.Positive(t, f.u.recv.since, "the clock was read for the first socket")
	f.conn.Drain(false)
	send(waits, old+50_000)
	f.conn.Drain(false)
	require.Zero(t, f.counted(counters.RcvdIdentErr))
	require.EqualValues(t, 3*stampEvery+2, f.counted(counters.RcvdPkts), "all have arrived")
}

// Without dropped packets, a shard opens no overflow sockets.
func TestNoOverflowWithoutDrops(t *testing.T) {
	f := newFanRig(t, 1)
	for range 20 {
		f.burst(150)
	}
	require.Zero(t, f.ports.Overruns())
	require.Empty(t, f.u.overflow.sockets)
}

// A shard that opens an address again uses the overflow sockets that are still open.
func TestOverflowSocketsAreTakenOver(t *testing.T) {
	f := newFanRig(t, 2*maxReceiveSockets)
	f.u.overflow.widen()
	port, err := f.ports.acquire(f.route.Local) // keeps the sockets of the address open
	require.NoError(t, err)
	defer port.release()
	f.conn.Close(&f.route)
	f.conn.CloseUnused()
	require.Zero(t, f.conn.OverflowSockets())
	f.open()
	require.Len(t, f.u.overflow.sockets, maxReceiveSockets-1)
	require.Equal(t, f.connections, f.burst(1))
}

// leaveDescriptors uses up descriptors until only n are free. The function giveBack
// undoes this.
func leaveDescriptors(t *testing.T, n int) (giveBack func()) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = min(1024, limit.Max)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	var fds []int
	giveBack = func() {
		closeAll(fds)
		fds = nil
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	}
	t.Cleanup(giveBack)
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if resource.NoDescriptors(err) {
			break
		}
		require.NoError(t, err)
		fds = append(fds, fd)
	}
	closeAll(fds[len(fds)-n:])
	fds = fds[:len(fds)-n]
	return giveBack
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// A shard that runs out of descriptors closes half of its new sockets, and tries again
// later.
func TestOverflowWithFewDescriptors(t *testing.T) {
	const left = 20
	f := newFanRig(t, 1+left/2)
	giveBack := leaveDescriptors(t, left)
	const packets = 400
	f.fire(0, packets)
	f.drive()
	require.Len(t, f.u.overflow.sockets, left/2)
	require.Len(t, f.u.port.members, 1+left/2)
	giveBack()

	i := 0 // index of a connection whose packets arrive at the first socket
	for f.number(i)/testSlots%(1+left/2) != 0 {
		i++
	}
	limit := 2 * droppedAt(f.u.fd)
	require.Positive(t, limit)
	for droppedAt(f.u.fd) < limit {
		require.Len(t, f.u.overflow.sockets, left/2)
		f.fire(i, packets)
		f.drive()
	}
	require.Len(t, f.u.overflow.sockets, maxReceiveSockets-1)
}

// The descriptors and the memory of a shard's sockets are limited.
func TestOverflowIsBounded(t *testing.T) {
	f := newFanRig(t, 1)
	require.Equal(t, maxReceiveSockets-1, f.u.overflow.mayOpen())
	if unix.SetsockoptInt(f.u.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveMemory/8) == nil {
		require.Equal(t, 4-1, f.u.overflow.mayOpen(), "the kernel doubles the requested size")
	}
	f.shrink(f.u.fd)
	f.conn.cfg.Shards = func() int { return 1 << 20 }
	require.Negative(t, f.u.overflow.mayOpen())
	f.conn.cfg.Shards = one
}

// Every shard can open its first socket, even if other shards have many overflow
// sockets.
func TestOverflowLeavesPlacesForOtherShards(t *testing.T) {
	const vectors = 64
	ports := testPorts(freeport.UDP(t), 2*vectors)
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
	require.Equal(t, 14, wide, "14 shards use up the 872 further places")
}
