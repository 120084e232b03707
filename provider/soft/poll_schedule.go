//go:build linux

package soft

import "slices"

const (
	// While there are active connections, each call of drive polls them. Only one of
	// rareEvery calls also checks sockets, timers and epoll. So epollEvery, epollEveryUD,
	// clockEvery and clockEveryLocal are multiples of rareEvery. Arbitrary.
	rareEvery = 16
	// One of epollEvery calls of drive polls epoll, for owners that never sleep.
	// Arbitrary.
	epollEvery = 64 * rareEvery
	// epollEveryUD replaces epollEvery while some sockets are polled only by epoll.
	// These are the sockets of UD queue pairs on the local path, and the additional
	// sockets that a shard opens after its socket has dropped packets. Arbitrary.
	epollEveryUD = rareEvery
	// One of clockEvery calls of drive checks the timers. Arbitrary.
	clockEvery = rareEvery
	// clockEveryLocal, a multiple of clockEvery, replaces it in a shard without sockets of
	// the wire path. Its timers are for the delays of peers, and reading the clock takes as
	// long as several calls of drive. Arbitrary.
	clockEveryLocal = 4 * rareEvery
	// Most calls of drive read acknowledgements only if something waits for them; see
	// shmPeer.awaitsAck. Every ackEvery-th call always reads them. Arbitrary.
	ackEvery = 64
	// A connection becomes idle after idleAfter calls of drive without work. Arbitrary.
	idleAfter = 256
	// While more than maxPolledIdle connections are polled, connections without work for
	// parkAfter calls of drive are parked. Both numbers are arbitrary.
	maxPolledIdle = 8
	parkAfter     = 4096
)

// pollState says how often the shard polls a local connection.
type pollState uint8

const (
	// pollParked: the shard does not poll the connection. A connection begins and ends
	// in this state. The shard parks connections while more than maxPolledIdle are
	// polled. It parks a connection after parkAfter calls of drive without work, or when
	// the owner may sleep. The shard then asks the peer to ring the doorbell when there
	// is work. The doorbell makes the connection active.
	pollParked pollState = iota
	// pollActive: each call of drive polls the connection. It becomes active when it
	// sends, its doorbell rings, or a poll finds work. It becomes idle after idleAfter
	// calls without work.
	pollActive
	// pollIdle: each call of drive polls one of the idle connections, in turn. If that
	// connection has work, it becomes active.
	pollIdle
)

// A pollEntry is the entry of a connection in the schedule. The zero value is parked.
type pollEntry struct {
	state    pollState
	index    int    // index in pollSchedule.active or pollSchedule.idle
	lastWork uint32 // value of pollSchedule.drives in the last call in which there was work
}

// A pollSchedule decides what each call of drive polls. It counts calls, because reading
// the clock is expensive.
type pollSchedule struct {
	drives uint32     // number of calls of drive so far; wraps
	active []*shmPeer // connections that each call of drive polls
	idle   []*shmPeer // connections of which each call of drive polls one, in turn
	// index of the idle connection that was polled last
	nextIdle int
}

// begin counts a call of drive.
func (p *pollSchedule) begin() { p.drives++ }

// rareDue reports whether this call of drive checks sockets, timers and epoll. Usually
// one of rareEvery calls does. Every call does if the shard has sockets of the wire path
// (wireInUse) and no active connections.
func (p *pollSchedule) rareDue(wireInUse bool) bool {
	return p.drives%rareEvery == 0 || wireInUse && len(p.active) == 0
}

// timers reports whether this call of drive checks the running timers. The parameter
// wireInUse is true if the shard has sockets of the wire path.
func (p *pollSchedule) timers(wireInUse bool) bool {
	return p.drives%clockEvery == 0 && (wireInUse || p.drives%clockEveryLocal == 0)
}

// acks reports whether this call of drive reads all acknowledgements; see ackEvery.
func (p *pollSchedule) acks() bool { return p.drives%ackEvery == 0 }

// epoll reports whether this call of drive polls the epoll descriptor. The parameter
// epollOnly is true if the shard has sockets that are polled in no other way. The
// parameter wireInUse is true if the shard has sockets of the wire path.
func (p *pollSchedule) epoll(epollOnly, wireInUse bool) bool {
	return p.drives%epollEvery == 0 || epollOnly && (p.drives%epollEveryUD == 0 || len(p.active) == 0 && wireInUse)
}

// nextIdleConn returns the next idle connection in turn. There must be one.
func (p *pollSchedule) nextIdleConn() *shmPeer {
	if p.nextIdle++; p.nextIdle >= len(p.idle) {
		p.nextIdle = 0
	}
	return p.idle[p.nextIdle]
}

// worked records that a connection had work in this call of drive.
func (p *pollSchedule) worked(c *shmPeer) { c.schedule.lastWork = p.drives }

// activate makes a connection active, as if it just had work.
func (p *pollSchedule) activate(c *shmPeer) {
	p.worked(c)
	if c.schedule.state != pollActive {
		p.move(c, pollActive)
	}
}

// rests reports whether a connection had no work for more than idleAfter calls of drive.
func (p *pollSchedule) rests(c *shmPeer) bool { return p.drives-c.schedule.lastWork > idleAfter }

func (p *pollSchedule) makeIdle(c *shmPeer) { p.move(c, pollIdle) }

// remove takes a connection off the lists; see pollParked.
func (p *pollSchedule) remove(c *shmPeer) { p.move(c, pollParked) }

// crowded reports whether more than maxPolledIdle connections are polled.
func (p *pollSchedule) crowded() bool { return len(p.active)+len(p.idle) > maxPolledIdle }

// armForSleep prepares for a sleep of the owner. For each connection on the lists it
// calls the function arm, which asks the peer to ring the doorbell. If a connection has
// work, arm returns false, and so does armForSleep. While more than maxPolledIdle
// connections are polled, armForSleep parks the connections that it has armed.
func (p *pollSchedule) armForSleep(arm func(*shmPeer) bool) bool {
	return p.armList(p.idle, arm) && p.armList(p.active, arm)
}

func (p *pollSchedule) armList(conns []*shmPeer, arm func(*shmPeer) bool) bool {
	for _, c := range slices.Backward(conns) {
		if !arm(c) {
			return false
		}
		if p.crowded() {
			p.remove(c)
		}
	}
	return true
}

// parkUnused parks connections that had no work for more than parkAfter calls of drive,
// while more than maxPolledIdle connections are polled. It first calls the function arm,
// which asks the peer to ring the doorbell. If the connection has work, arm returns
// false, and the connection is not parked.
func (p *pollSchedule) parkUnused(arm func(*shmPeer) bool) {
	if !p.crowded() {
		return
	}
	for _, conns := range [][]*shmPeer{p.idle, p.active} {
		for _, c := range slices.Backward(conns) {
			if p.crowded() && p.drives-c.schedule.lastWork > parkAfter && arm(c) {
				p.remove(c)
			}
		}
	}
}

// move moves a connection to the list of another state.
func (p *pollSchedule) move(c *shmPeer, to pollState) {
	if from := p.list(c.schedule.state); from != nil {
		last := len(*from) - 1
		moved := (*from)[last]
		(*from)[c.schedule.index], moved.schedule.index = moved, c.schedule.index
		(*from)[last] = nil
		*from = (*from)[:last]
	}
	c.schedule.state = to
	if list := p.list(to); list != nil {
		c.schedule.index = len(*list)
		*list = append(*list, c)
	}
}

// list returns the list of a state, or nil for pollParked.
func (p *pollSchedule) list(s pollState) *[]*shmPeer {
	switch s {
	case pollActive:
		return &p.active
	case pollIdle:
		return &p.idle
	}
	return nil
}
