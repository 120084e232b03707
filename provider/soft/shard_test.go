//go:build linux

package soft

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/verbs"
)

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
// The results are the numbers of calls of reserveRing and of writes to the eventfd.
func prepareForSleep(t *testing.T, n int) (visits int, rings uint64) {
	d := openDevice(t, &Config{Vectors: 2})
	s := newSleeper(t, d, 0, verbs.ProgressManual)
	conns := make([]*shmPeer, n)
	for i := range conns {
		a, b := newPair(t, d, verbs.ProgressManual)
		a.post(verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled})
		_, err := b.cq.Poll(b.wc) // This call executes and acknowledges the WRITE.
		require.NoError(t, err)
		conns[i] = a.qp.path.(*shmConn).p
		require.Less(t, n, len(conns[i].all.doorbellBuf), "pendingRings counts the visits up to this number")
	}
	require.NoError(t, s.cq.Arm(false))
	for range n {
		s.qp.State()
	}
	for _, c := range conns {
		visits += c.pendingRings
	}
	var count [8]byte
	_, err := unix.Read(s.qp.shard.event.FD(), count[:])
	require.NoError(t, err)
	return visits, binary.NativeEndian.Uint64(count[:])
}

// One call of drive reads the clock at most once, even for many packets.
func TestDriveTimeReadsClockOnce(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 1})
	s := newEnd(t, d, 0, verbs.ProgressManual).qp.shard
	var readings time.Duration
	s.clock = func() time.Duration {
		readings++
		return readings
	}
	s.drive()
	require.EqualValues(t, 1, s.driveTime())
	require.EqualValues(t, 1, s.driveTime())
	s.drive()
	require.EqualValues(t, 2, s.driveTime())
	s.handleReady()
	require.EqualValues(t, 3, s.driveTime(), "the owner may have slept before descriptors were ready")
}

// A timer fires only after the packets that have arrived were processed. Each call of
// drive processes a part of them.
func TestTimersWaitForPackets(t *testing.T) {
	// One call of drive reads fewer packets than this. The socket can hold all of them.
	const packets = 150
	c := newCounterRig(t)
	for range packets {
		c.sendRaw(c.packet(c.qpn))
	}
	fired := false
	var timer timer
	timer.init(c.shard, timerheap.Func(func() {
		require.Equal(t, packets, c.end.got)
		fired = true
	}))
	timer.start(0)
	c.shard.fireTimers()
	require.Less(t, c.end.got, packets)
	for calls := 0; !fired; calls++ {
		require.Less(t, calls, packets)
		c.shard.driveRare()
	}
}

// Next does not receive more packets while the CQ still has completions and is not
// armed.
func TestNextDoesNotDriveWithBacklog(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	chn, err := d.CreateCompChannel(&verbs.CompChannelAttr{Vector: 1, Progress: verbs.ProgressManual})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, chn.Close()) })
	e := newEndOn(t, d, &verbs.CQAttr{Depth: 1024, Vector: 1, Progress: verbs.ProgressManual, Channel: chn})
	s := e.qp.shard
	driven := func() bool {
		before := s.polls.drives
		_, _, err := chn.Next()
		require.NoError(t, err)
		return s.polls.drives > before
	}
	poll := func(want int) {
		n, err := e.cq.Poll(e.wc)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	q := e.addFlushed(len(e.wc) + 1)
	poll(len(e.wc))
	require.False(t, driven())
	require.NoError(t, e.cq.Arm(false))
	require.True(t, driven(), "the owner waits for an event")
	poll(1)
	require.True(t, driven())
	require.NoError(t, q.Close())
}
