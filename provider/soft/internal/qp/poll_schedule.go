//go:build linux

package qp

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
	// shmpath.peer.awaitsAck. Every AckEvery-th call always reads them. Arbitrary.
	AckEvery = 64
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

// A Poller is a connection that a shard polls.
type Poller interface {
	// Poll does what is possible without waiting. It returns false if there was no work.
	Poll() bool
	// IsIdle reports whether there is no work.
	IsIdle() bool
	// Arm asks the peer to ring the doorbell, so that the shard does not have to poll. If
	// there is work already, arm returns false.
	Arm() bool
}

// A PollEntry is the entry of a connection in the schedule. Before use, conn must be set;
// the entry is then parked.
type PollEntry struct {
	Conn     Poller
	state    pollState
	index    int    // index in pollSchedule.active or pollSchedule.idle
	lastWork uint32 // value of pollSchedule.Drives in the last call in which there was work
}

// A pollSchedule decides what each call of drive polls. It counts calls, because reading
// the clock is expensive.
type pollSchedule struct {
	Drives uint32       // number of calls of drive so far; wraps
	active []*PollEntry // connections that each call of drive polls
	idle   []*PollEntry // connections of which each call of drive polls one, in turn
	// index of the idle connection that was polled last
	nextIdle int
}

// begin counts a call of drive.
func (p *pollSchedule) begin() { p.Drives++ }

// rareDue reports whether this call of drive checks sockets, timers and epoll. Usually
// one of rareEvery calls does. Every call does if the shard has sockets of the wire path
// (wireInUse) and no active connections.
func (p *pollSchedule) rareDue(wireInUse bool) bool {
	return p.Drives%rareEvery == 0 || wireInUse && len(p.active) == 0
}

// timers reports whether this call of drive checks the running timers. The parameter
// wireInUse is true if the shard has sockets of the wire path.
func (p *pollSchedule) timers(wireInUse bool) bool {
	return p.Drives%clockEvery == 0 && (wireInUse || p.Drives%clockEveryLocal == 0)
}

// Acks reports whether this call of drive reads all acknowledgements; see AckEvery.
func (p *pollSchedule) Acks() bool { return p.Drives%AckEvery == 0 }

// epoll reports whether this call of drive polls the epoll descriptor. The parameter
// epollOnly is true if the shard has sockets that are polled in no other way. The
// parameter wireInUse is true if the shard has sockets of the wire path.
func (p *pollSchedule) epoll(epollOnly, wireInUse bool) bool {
	return p.Drives%epollEvery == 0 || epollOnly && (p.Drives%epollEveryUD == 0 || len(p.active) == 0 && wireInUse)
}

// nextIdleEntry returns the next idle connection in turn. There must be one.
func (p *pollSchedule) nextIdleEntry() *PollEntry {
	if p.nextIdle++; p.nextIdle >= len(p.idle) {
		p.nextIdle = 0
	}
	return p.idle[p.nextIdle]
}

// Worked records that a connection had work in this call of drive.
func (p *pollSchedule) Worked(e *PollEntry) { e.lastWork = p.Drives }

// Activate makes a connection active, as if it just had work.
func (p *pollSchedule) Activate(e *PollEntry) {
	p.Worked(e)
	if e.state != pollActive {
		p.move(e, pollActive)
	}
}

// Rests reports whether a connection had no work for more than idleAfter calls of drive.
func (p *pollSchedule) Rests(e *PollEntry) bool { return p.Drives-e.lastWork > idleAfter }

func (p *pollSchedule) MakeIdle(e *PollEntry) { p.move(e, pollIdle) }

// Remove takes a connection off the lists; see pollParked.
func (p *pollSchedule) Remove(e *PollEntry) { p.move(e, pollParked) }

// crowded reports whether more than maxPolledIdle connections are polled.
func (p *pollSchedule) crowded() bool { return len(p.active)+len(p.idle) > maxPolledIdle }

// armForSleep prepares for a sleep of the owner. It arms the connections on the lists. If
// a connection has work, armForSleep returns false. While more than maxPolledIdle
// connections are polled, armForSleep parks the connections that it has armed.
func (p *pollSchedule) armForSleep() bool { return p.armList(p.idle) && p.armList(p.active) }

func (p *pollSchedule) armList(entries []*PollEntry) bool {
	for _, e := range slices.Backward(entries) {
		if !e.Conn.Arm() {
			return false
		}
		if p.crowded() {
			p.Remove(e)
		}
	}
	return true
}

// parkUnused parks connections that had no work for more than parkAfter calls of drive,
// while more than maxPolledIdle connections are polled. It arms them first. A connection
// with work is not parked.
func (p *pollSchedule) parkUnused() {
	if !p.crowded() {
		return
	}
	for _, entries := range [][]*PollEntry{p.idle, p.active} {
		for _, e := range slices.Backward(entries) {
			if p.crowded() && p.Drives-e.lastWork > parkAfter && e.Conn.Arm() {
				p.Remove(e)
			}
		}
	}
}

// move moves a connection to the list of another state.
func (p *pollSchedule) move(e *PollEntry, to pollState) {
	if from := p.list(e.state); from != nil {
		last := len(*from) - 1
		moved := (*from)[last]
		(*from)[e.index], moved.index = moved, e.index
		(*from)[last] = nil
		*from = (*from)[:last]
	}
	e.state = to
	if list := p.list(to); list != nil {
		e.index = len(*list)
		*list = append(*list, e)
	}
}

// list returns the list of a state, or nil for pollParked.
func (p *pollSchedule) list(s pollState) *[]*PollEntry {
	switch s {
	case pollActive:
		return &p.active
	case pollIdle:
		return &p.idle
	}
	return nil
}
