//go:build linux

package qp

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newFakeSleeper returns an end whose CQ has a completion channel.
func newFakeSleeper(t *testing.T, h *fakeHost) (*fakeEnd, verbs.CompChannel) {
	chn, err := h.CreateCompChannel(&verbs.CompChannelAttr{Progress: verbs.ProgressManual})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, chn.Close()) })
	return newFakeEnd(t, h, chn), chn
}

// While a CQ is armed, each method call prepares for sleep. But n calls together arm at
// most 2n doorbells.
func TestPreparingForSleepIsLinear(t *testing.T) {
	for _, n := range []int{16, 32} {
		visits, rings := prepareForSleep(t, n)
		require.LessOrEqual(t, visits, 2*n, "connections parked by %d calls with %d connections", n, n)
		require.EqualValues(t, 1, rings, "writes to the eventfd by %d calls", n)
	}
}

// prepareForSleep makes n connections with work, arms the CQ, and calls QP.State n times.
// The results are the numbers of calls of Poller.Arm and of writes to the eventfd.
func prepareForSleep(t *testing.T, n int) (visits int, rings uint64) {
	h := newFakeHost(t, 1)
	s, _ := newFakeSleeper(t, h)
	paths := make([]*fakePath, n)
	for i := range paths {
		paths[i] = newFakeEnd(t, h, nil).connect()
		paths[i].arrive(whole, 0)
	}
	require.NoError(t, s.cq.Arm(false))
	for range n {
		s.qp.State()
	}
	for _, p := range paths {
		visits += p.arms
	}
	var count [8]byte
	_, err := unix.Read(s.qp.Shard.wake.event.FD(), count[:])
	require.NoError(t, err)
	return visits, binary.NativeEndian.Uint64(count[:])
}

// One call of drive reads the clock at most once, even for many packets.
func TestDriveTimeReadsClockOnce(t *testing.T) {
	s := newFakeEnd(t, newFakeHost(t, 1), nil).qp.Shard
	var readings time.Duration
	s.Clock = func() time.Duration {
		readings++
		return readings
	}
	s.drive()
	require.EqualValues(t, 1, s.DriveTime())
	require.EqualValues(t, 1, s.DriveTime())
	s.drive()
	require.EqualValues(t, 2, s.DriveTime())
	s.handleReady()
	require.EqualValues(t, 3, s.DriveTime(), "the owner may have slept before descriptors were ready")
}

// A packetCounter is a queue pair on the wire path that only counts packets.
type packetCounter int

func (c *packetCounter) Receive(wire.Packet, *udp.Header) { *c++ }
func (c *packetCounter) SendDue() bool                    { return true }

// sendPackets sends n packets over UDP to a new queue pair of the shard, which counts them.
func sendPackets(t *testing.T, s *Shard, port uint16, n int) *packetCounter {
	from, home := netip.MustParseAddr("127.9.0.1"), netip.MustParseAddr("127.9.0.3")
	route := &udp.Route{Local: home, Remote: home}
	require.NoError(t, s.udp.Open(route))
	t.Cleanup(func() { s.udp.Close(route) })
	got, num := new(packetCounter), s.engine.numberFor(s.Slot, 0x1000)
	s.Demux.Attach(num, got)
	t.Cleanup(func() { s.Demux.Detach(num) })

	fd, err := hostport.UDPSocket(from)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO))
	require.NoError(t, unix.Bind(fd, hostport.Sockaddr(from, 0)))
	local, err := hostport.LocalAddr(fd)
	require.NoError(t, err)
	var flow wire.Flow
	flow.Set(local, netip.AddrPortFrom(home, port))
	p := wire.Build(make([]byte, wire.SendOnly.Size(64)), wire.SendOnly, 64)
	p.BTH().SetDestQP(num)
	p.BTH().SetPSN(psn.New(1))
	flow.Seal(p, 0)
	for range n {
		require.NoError(t, unix.Sendto(fd, p.Bytes(), 0, hostport.Sockaddr(home, int(port))))
	}
	return got
}

// A timer fires only after the packets that have arrived were processed. Each call of
// drive processes a part of them.
func TestTimersWaitForPackets(t *testing.T) {
	// One call of drive reads fewer packets than this. The socket can hold all of them.
	const packets = 150
	port := freeport.UDP(t)
	shard := newFakeEnd(t, newFakeHostAt(t, 1, port), nil).qp.Shard
	got := sendPackets(t, shard, port, packets)
	fired := false
	var timer Timer
	timer.Init(shard, timerheap.Func(func() {
		require.EqualValues(t, packets, *got)
		fired = true
	}))
	timer.Start(0)
	shard.FireTimers()
	require.Less(t, int(*got), packets)
	for calls := 0; !fired; calls++ {
		require.Less(t, calls, packets)
		shard.driveRare()
	}
}

// Next does not receive more packets while the CQ still has completions and is not
// armed.
func TestNextDoesNotDriveWithBacklog(t *testing.T) {
	e, chn := newFakeSleeper(t, newFakeHost(t, 1))
	s := e.qp.Shard
	driven := func() bool {
		before := s.Polls.Drives
		_, _, err := chn.Next()
		require.NoError(t, err)
		return s.Polls.Drives > before
	}
	const batch = 64
	poll := func(want int) { require.Len(t, e.poll(batch), want) }
	q := e.flushed(batch + 1)
	poll(batch)
	require.False(t, driven())
	require.NoError(t, e.cq.Arm(false))
	require.True(t, driven(), "the owner waits for an event")
	poll(1)
	require.True(t, driven())
	require.NoError(t, q.Close())
}
