//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// newSchedule returns a schedule with n active connections without queue pairs.
func newSchedule(n int) (*pollSchedule, []*shmPeer) {
	p := new(pollSchedule)
	conns := make([]*shmPeer, n)
	for i := range conns {
		conns[i] = new(shmPeer)
		p.activate(conns[i])
	}
	return p, conns
}

// count simulates n calls of drive, and returns in how many of them due() is true.
func (p *pollSchedule) count(n int, due func() bool) (times int) {
	for range n {
		p.begin()
		if due() {
			times++
		}
	}
	return times
}

func TestPollScheduleWithoutConns(t *testing.T) {
	p, _ := newSchedule(0)
	require.Equal(t, 2*epollEvery/rareEvery, p.count(2*epollEvery, func() bool { return p.rareDue(false) }))
	require.Equal(t, 2*epollEvery, p.count(2*epollEvery, func() bool { return p.rareDue(true) }))
	require.Equal(t, 2*epollEvery/clockEvery, p.count(2*epollEvery, func() bool { return p.timers(true) }))
	require.Equal(t, 2*epollEvery/clockEveryLocal, p.count(2*epollEvery, func() bool { return p.timers(false) }))
	require.Equal(t, 2*epollEvery/ackEvery, p.count(2*epollEvery, p.acks))
	for _, c := range []struct {
		messages, wireInUse bool
		want                int
	}{
		{false, false, 2},
		{false, true, 2},
		{true, false, 2 * epollEvery / epollEveryUD},
		{true, true, 2 * epollEvery},
	} {
		require.Equal(t, c.want, p.count(2*epollEvery, func() bool { return p.epoll(c.messages, c.wireInUse) }), "%+v", c)
	}
}

// While a connection is active, sockets and epoll are polled more rarely.
func TestPollScheduleWithActiveConn(t *testing.T) {
	p, _ := newSchedule(1)
	require.Equal(t, epollEvery/epollEveryUD, p.count(epollEvery, func() bool { return p.rareDue(true) }))
	require.Equal(t, epollEvery/epollEveryUD, p.count(epollEvery, func() bool { return p.epoll(true, true) }))
	require.Equal(t, 1, p.count(epollEvery, func() bool { return p.epoll(false, true) }))
}

func TestPollScheduleRests(t *testing.T) {
	p, conns := newSchedule(1)
	require.Zero(t, p.count(idleAfter, func() bool { return p.rests(conns[0]) }))
	p.begin()
	require.True(t, p.rests(conns[0]))
	p.worked(conns[0])
	require.False(t, p.rests(conns[0]))
}

// Each connection is on the list of its state only. A parked connection is on no list.
func TestPollScheduleMoves(t *testing.T) {
	p, conns := newSchedule(5)
	for _, c := range conns[:3] {
		p.makeIdle(c)
	}
	p.remove(conns[0])
	p.remove(conns[4])
	p.remove(conns[4])
	p.activate(conns[1])
	p.activate(conns[3])
	require.ElementsMatch(t, []*shmPeer{conns[1], conns[3]}, p.active)
	require.ElementsMatch(t, []*shmPeer{conns[2]}, p.idle)
	for _, list := range [][]*shmPeer{p.active, p.idle} {
		for i, c := range list {
			require.Equal(t, i, c.schedule.index)
		}
	}
}

func TestPollScheduleIdleInTurn(t *testing.T) {
	p, conns := newSchedule(3)
	for _, c := range conns {
		p.makeIdle(c)
	}
	var seen []*shmPeer
	for range 3 {
		seen = append(seen, p.nextIdleConn())
	}
	require.ElementsMatch(t, conns, seen)
	p.remove(p.nextIdleConn())
	p.remove(p.nextIdleConn())
	require.Same(t, p.nextIdleConn(), p.nextIdleConn(), "only one idle connection is left")
}

// armForSleep arms the doorbells of the connections on the lists, idle ones first. It
// stops at a connection with work. It leaves maxPolledIdle connections on the lists.
func TestPollScheduleArmsForSleep(t *testing.T) {
	p, conns := newSchedule(maxPolledIdle + 3)
	p.makeIdle(conns[0])
	var asked []*shmPeer
	arm := func(c *shmPeer) bool {
		asked = append(asked, c)
		return c != conns[2]
	}
	require.False(t, p.armForSleep(arm))
	require.Equal(t, conns[0], asked[0], "idle connections come first")
	require.Equal(t, conns[2], asked[len(asked)-1])
	require.Len(t, p.active, maxPolledIdle)
	require.Equal(t, pollActive, conns[2].schedule.state)
	require.True(t, p.armForSleep(func(*shmPeer) bool { return true }))
	require.Len(t, p.active, maxPolledIdle)
}

// While more than maxPolledIdle connections are polled, parkUnused parks connections
// that had no work for more than parkAfter calls of drive.
func TestPollScheduleParksUnused(t *testing.T) {
	p, conns := newSchedule(maxPolledIdle + 3)
	always := func(*shmPeer) bool { return true }
	p.drives += parkAfter
	p.parkUnused(always)
	require.Len(t, p.active, len(conns), "the connections have not been idle for long enough")
	p.begin()
	for _, c := range conns[2:] {
		p.worked(c)
	}
	p.parkUnused(func(*shmPeer) bool { return false })
	require.Len(t, p.active, len(conns), "connections with work are not parked")
	p.parkUnused(always)
	require.Len(t, p.active, len(conns)-2)
	p.drives += parkAfter + 1
	p.parkUnused(always)
	require.Len(t, p.active, maxPolledIdle)
	require.False(t, p.crowded())
}
