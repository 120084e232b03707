//go:build linux

package qp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A testPoller is a connection whose method arm calls the function armed.
type testPoller struct {
	entry PollEntry
	armed func(c *testPoller) bool
}

func (c *testPoller) Poll() bool   { return false }
func (c *testPoller) IsIdle() bool { return true }
func (c *testPoller) Arm() bool    { return c.armed(c) }

// newSchedule returns a schedule with n active connections.
func newSchedule(n int) (*pollSchedule, []*testPoller) {
	p := new(pollSchedule)
	conns := make([]*testPoller, n)
	for i := range conns {
		conns[i] = new(testPoller)
		conns[i].entry.Conn = conns[i]
		p.Activate(&conns[i].entry)
	}
	return p, conns
}

// setArm sets the function armed of all connections.
func setArm(conns []*testPoller, armed func(*testPoller) bool) {
	for _, c := range conns {
		c.armed = armed
	}
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
	require.Equal(t, 2*epollEvery/AckEvery, p.count(2*epollEvery, p.Acks))
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
	require.Zero(t, p.count(idleAfter, func() bool { return p.Rests(&conns[0].entry) }))
	p.begin()
	require.True(t, p.Rests(&conns[0].entry))
	p.Worked(&conns[0].entry)
	require.False(t, p.Rests(&conns[0].entry))
}

// Each connection is on the list of its state only. A parked connection is on no list.
func TestPollScheduleMoves(t *testing.T) {
	p, conns := newSchedule(5)
	for _, c := range conns[:3] {
		p.MakeIdle(&c.entry)
	}
	p.Remove(&conns[0].entry)
	p.Remove(&conns[4].entry)
	p.Remove(&conns[4].entry)
	p.Activate(&conns[1].entry)
	p.Activate(&conns[3].entry)
	require.ElementsMatch(t, []*PollEntry{&conns[1].entry, &conns[3].entry}, p.active)
	require.ElementsMatch(t, []*PollEntry{&conns[2].entry}, p.idle)
	for _, list := range [][]*PollEntry{p.active, p.idle} {
		for i, e := range list {
			require.Equal(t, i, e.index)
		}
	}
}

func TestPollScheduleIdleInTurn(t *testing.T) {
	p, conns := newSchedule(3)
	for _, c := range conns {
		p.MakeIdle(&c.entry)
	}
	var seen []*testPoller
	for range 3 {
		seen = append(seen, p.nextIdleEntry().Conn.(*testPoller))
	}
	require.ElementsMatch(t, conns, seen)
	p.Remove(p.nextIdleEntry())
	p.Remove(p.nextIdleEntry())
	require.Same(t, p.nextIdleEntry(), p.nextIdleEntry(), "only one idle connection is left")
}

// armForSleep arms the doorbells of the connections on the lists, idle ones first. It
// stops at a connection with work. It leaves maxPolledIdle connections on the lists.
func TestPollScheduleArmsForSleep(t *testing.T) {
	p, conns := newSchedule(maxPolledIdle + 3)
	p.MakeIdle(&conns[0].entry)
	var asked []*testPoller
	setArm(conns, func(c *testPoller) bool {
		asked = append(asked, c)
		return c != conns[2]
	})
	require.False(t, p.armForSleep())
	require.Same(t, conns[0], asked[0], "idle connections come first")
	require.Same(t, conns[2], asked[len(asked)-1])
	require.Len(t, p.active, maxPolledIdle)
	require.Equal(t, pollActive, conns[2].entry.state)
	setArm(conns, func(*testPoller) bool { return true })
	require.True(t, p.armForSleep())
	require.Len(t, p.active, maxPolledIdle)
}

// While more than maxPolledIdle connections are polled, parkUnused parks connections
// that had no work for more than parkAfter calls of drive.
func TestPollScheduleParksUnused(t *testing.T) {
	p, conns := newSchedule(maxPolledIdle + 3)
	setArm(conns, func(*testPoller) bool { return true })
	p.Drives += parkAfter
	p.parkUnused()
	require.Len(t, p.active, len(conns), "the connections have not been idle for long enough")
	p.begin()
	for _, c := range conns[2:] {
		p.Worked(&c.entry)
	}
	setArm(conns, func(*testPoller) bool { return false })
	p.parkUnused()
	require.Len(t, p.active, len(conns), "connections with work are not parked")
	setArm(conns, func(*testPoller) bool { return true })
	p.parkUnused()
	require.Len(t, p.active, len(conns)-2)
	p.Drives += parkAfter + 1
	p.parkUnused()
	require.Len(t, p.active, maxPolledIdle)
	require.False(t, p.crowded())
}
