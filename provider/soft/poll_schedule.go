//go:build linux

package soft

import "slices"

const (
	// A shard with active connections polls these connections in each call of drive. In
	// one of rareEvery calls it also polls the sockets of the wire path, and checks the
	// timers and epoll if they are due. So epollEvery, epollEveryUD and clockEvery are
	// multiples of rareEvery. The number is arbitrary.
	rareEvery = 16
	// epollEvery is the number of calls of drive after which a shard polls its epoll
	// descriptor. If the owner never sleeps, only this poll finds descriptors that are
	// ready. The number is arbitrary.
	epollEvery = 64 * rareEvery
	// Some messages are reported by epoll only: datagrams to UD queue pairs on the local
	// path, and packets at the overflow sockets of the wire path. A shard that can
	// receive such messages uses epollEveryUD in place of epollEvery. The number is
	// arbitrary.
	epollEveryUD = rareEvery
	// clockEvery is the number of calls of drive after which running timers are checked.
	// It is arbitrary.
	clockEvery = rareEvery
	// ackEvery is the number of calls of drive after which a connection reads the peer's
	// acknowledgements although no signaled request is outstanding. It is arbitrary.
	ackEvery = 64
	// idleAfter is the number of calls of drive without work after which a connection
	// moves to the idle list. It is arbitrary.
	idleAfter = 256
	// While a shard polls no more than maxPolledIdle connections, it polls them even if
	// they have no work for a long time. If it polls more, it parks those connections
	// that had no work during parkAfter calls of drive. The idle list then stays short,
	// and each connection on it is polled often. The numbers maxPolledIdle and parkAfter
	// are arbitrary.
	maxPolledIdle = 8
	parkAfter     = 4096
)

// pollState is the state of a connection on the local path. It says how often the shard
// polls the connection.
type pollState uint8

const (
	// pollParked: the connection is on no list, and the shard does not poll it. A
	// connection begins in this state. It returns to this state when it ends. It also
	// returns when more than maxPolledIdle connections are on the lists, and either the
	// connection had no work during parkAfter calls of drive, or the owner may go to
	// sleep. In both cases the peer is asked to ring the doorbell. When the doorbell
	// rings, epoll reports it, and the connection becomes active.
	pollParked pollState = iota
	// pollActive: each call of drive polls the connection. A connection becomes active
	// when it sends, when its doorbell rings, and when the poll of an idle connection
	// finds work. It becomes idle after idleAfter calls of drive without work.
	pollActive
	// pollIdle: each call of drive polls one of the idle connections, in turn, so that
	// they do not slow down the active ones. If that poll finds work, the connection
	// becomes active.
	pollIdle
)

// A pollEntry is the entry of a connection in the schedule of its shard. The zero value
// is that of a parked connection.
type pollEntry struct {
	state    pollState
	index    int    // index of the connection in pollSchedule.active or pollSchedule.idle, as the state says
	lastWork uint32 // value of pollSchedule.drives when the connection last had work
}

// A pollSchedule decides what a shard polls in each call of drive: which connections of
// the local path, and whether also the sockets of the wire path, the clock and epoll. The
// decisions depend on the number of calls, because reading the clock is too expensive for
// each call.
type pollSchedule struct {
	drives   uint32     // number of calls of drive so far; wraps
	active   []*shmConn // connections that each call of drive polls
	idle     []*shmConn // connections of which each call of drive polls one, in turn
	nextIdle int        // index in the idle list of the connection that was polled last
}

// begin counts a call of drive.
func (p *pollSchedule) begin() { p.drives++ }

// rareDue reports whether this call of drive polls the sockets of the wire path, and
// checks whether timers and epoll are due. The parameter wireInUse is true if the shard
// has such sockets. Without active connections on the local path, each call polls these
// sockets. Active connections would be slowed down by the system call, so a shard with
// active connections polls the sockets less often.
func (p *pollSchedule) rareDue(wireInUse bool) bool {
	return p.drives%rareEvery == 0 || wireInUse && len(p.active) == 0
}

// timers reports whether this call of drive reads the clock and fires the timers that
// are due. It is asked only if timers are running.
func (p *pollSchedule) timers() bool { return p.drives%clockEvery == 0 }

// acks reports whether this call of drive reads the acknowledgements of every connection
// that it polls; see ackEvery.
func (p *pollSchedule) acks() bool { return p.drives%ackEvery == 0 }

// epoll reports whether this call of drive polls the epoll descriptor. Usually one of
// epollEvery calls does. The parameter epollOnly is true if messages can arrive that
// only epoll reports. In this case one of epollEveryUD calls polls epoll. The parameter
// wireInUse is true if the shard has sockets of the wire path. If both parameters are
// true and no connection is active, each call polls epoll.
func (p *pollSchedule) epoll(epollOnly, wireInUse bool) bool {
	return p.drives%epollEvery == 0 || epollOnly && (p.drives%epollEveryUD == 0 || len(p.active) == 0 && wireInUse)
}

// nextIdleConn returns the next idle connection in turn. There must be at least one idle
// connection.
func (p *pollSchedule) nextIdleConn() *shmConn {
	if p.nextIdle++; p.nextIdle >= len(p.idle) {
		p.nextIdle = 0
	}
	return p.idle[p.nextIdle]
}

// worked records that a connection has had work in this call of drive.
func (p *pollSchedule) worked(c *shmConn) { c.schedule.lastWork = p.drives }

// activate makes a connection active. The schedule then treats the connection as one
// that has just had work.
func (p *pollSchedule) activate(c *shmConn) {
	p.worked(c)
	if c.schedule.state != pollActive {
		p.move(c, pollActive)
	}
}

// rests reports whether an active connection had no work during the last idleAfter
// calls. Such a connection becomes idle, unless it has work in this call.
func (p *pollSchedule) rests(c *shmConn) bool { return p.drives-c.schedule.lastWork > idleAfter }

// makeIdle makes a connection idle.
func (p *pollSchedule) makeIdle(c *shmConn) { p.move(c, pollIdle) }

// remove takes a connection off the lists; see pollParked.
func (p *pollSchedule) remove(c *shmConn) { p.move(c, pollParked) }

// crowded reports whether more than maxPolledIdle connections are polled.
func (p *pollSchedule) crowded() bool { return len(p.active)+len(p.idle) > maxPolledIdle }

// armForSleep is called when the owner may go to sleep. It calls the function arm for
// each connection on the lists. This function asks the peer to ring the doorbell, and
// returns true. If the connection has work already, the function returns false; then
// armForSleep stops, and returns false too. As long as more than maxPolledIdle
// connections are on the lists, armForSleep removes each connection for which the
// function has returned true.
func (p *pollSchedule) armForSleep(arm func(*shmConn) bool) bool {
	return p.armList(p.idle, arm) && p.armList(p.active, arm)
}

func (p *pollSchedule) armList(conns []*shmConn, arm func(*shmConn) bool) bool {
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

// parkUnused parks connections that had no work during parkAfter calls of drive, until
// maxPolledIdle connections are left on the lists. For each of them it first calls the
// function arm, which asks the peer to ring the doorbell. If this function returns false,
// the connection has work, and stays on its list.
func (p *pollSchedule) parkUnused(arm func(*shmConn) bool) {
	if !p.crowded() {
		return
	}
	for _, conns := range [][]*shmConn{p.idle, p.active} {
		for _, c := range slices.Backward(conns) {
			if p.crowded() && p.drives-c.schedule.lastWork > parkAfter && arm(c) {
				p.remove(c)
			}
		}
	}
}

// move moves the connection c from the list of its state to the list of another state.
// The last connection of the old list then gets the index that c had there.
func (p *pollSchedule) move(c *shmConn, to pollState) {
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
func (p *pollSchedule) list(s pollState) *[]*shmConn {
	switch s {
	case pollActive:
		return &p.active
	case pollIdle:
		return &p.idle
	}
	return nil
}
