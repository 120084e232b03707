//go:build linux

package qp

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Shard owns all objects that complete on the CQs of one completion vector. Driving a
// shard means to do all work that is possible without waiting.
//
// In manual progress one goroutine drives the shard by polling a CQ. This goroutine is
// the owner, and nothing is locked. In automatic progress a goroutine of the shard
// drives it too, and each call takes mu.
type Shard struct {
	engine      *Engine
	auto        bool
	Clock       func() time.Duration // function that returns the time since the device was opened
	timeOfDrive time.Duration        // time that DriveTime returns; valid if timeRead is true
	timeRead    bool                 // true if this call of drive has read the clock
	mu          sync.Mutex

	epoll *fdevent.Dispatcher // epoll set of the shard's descriptors
	wake  wake
	alarm *fdevent.Timer

	Demux     packets.Demux
	udp       Sockets
	wireInUse bool   // true if routes are open in udp
	Slot      uint32 // number of the shard; see shardKey.slot

	Polls         pollSchedule
	armed         int // number of CQs that are armed
	epollOnly     int // number of listening sockets that only epoll polls
	Timers        timerheap.Heap
	unusedSockets Timer         // timer for udp.Conn.CloseUnused
	alarmAt       time.Duration // time for which alarm is set; 0 if not set
	draining      bool          // true if a timer is due, and the sockets are read before it fires
	backlog       bool          // true if the last poll of a CQ has left completions in it
	Counts        *counters.Set
	Tap           *capture.Tap // records what the shard sends and receives; nil without a capture

	closed bool
	done   chan struct{} // closed when the goroutine of the shard has ended
}

func newShard(e *Engine, key shardKey) (*Shard, error) {
	auto := key.progress == verbs.ProgressAuto
	s := &Shard{
		engine: e, Slot: key.slot(), auto: auto, Clock: e.Clock, Counts: new(counters.Set), Tap: e.Capture.NewTap(),
	}
	s.udp = e.Host.NewSockets(s)
	s.unusedSockets.Init(s, timerheap.Func(s.udp.CloseUnused))
	s.Demux = packets.NewDemux(s.udp)
	if err := s.open(); err != nil {
		s.closeFDs()
		return nil, resource.Wrap(err)
	}
	if auto {
		s.done = make(chan struct{})
		go s.run()
	}
	return s, nil
}

func (s *Shard) open() (err error) {
	if s.epoll, err = fdevent.NewDispatcher(); err != nil {
		return err
	}
	if s.wake.event, err = fdevent.NewEvent(); err != nil {
		return err
	}
	if s.alarm, err = fdevent.NewTimer(s.engine.Sim); err != nil {
		return err
	}
	for _, fd := range []int{s.wake.event.FD(), s.alarm.FD()} {
		if err = s.epoll.Add(fd, unix.EPOLLIN, s); err != nil {
			return err
		}
	}
	return nil
}

// Enter begins a call into the shard. In automatic progress it takes a lock.
func (s *Shard) Enter() {
	if s.auto {
		s.mu.Lock()
	}
}

// Leave ends a call into the shard.
func (s *Shard) Leave() {
	if s.armed > 0 || s.auto {
		s.beforeSleep()
	}
}

// beforeSleep ends a call after which the owner may sleep. It sends what is due. Then it
// calls prepareSleep, unless a readable event keeps the owner awake.
func (s *Shard) beforeSleep() {
	done := s.Demux.SendAll()
	if !s.wake.due() {
		s.prepareSleep(done)
	}
	if s.auto {
		s.mu.Unlock()
	}
}

// prepareSleep makes sure that a doorbell, a descriptor or a timer wakes the owner. If
// there is work already, prepareSleep makes event readable. The parameter wireDone is
// false if the wire path has work.
func (s *Shard) prepareSleep(wireDone bool) {
	if !wireDone || !s.Polls.armForSleep() {
		s.wake.signal()
		return
	}
	s.udp.Arm()
	s.setAlarm()
}

// drive does all work that is possible without waiting. It sends what is due, and polls
// connections. Sockets, timers and epoll are checked less often.
func (s *Shard) drive() {
	s.Polls.begin()
	s.timeRead = false
	s.wake.driven()
	// Packets are sent first, because the peer may be waiting for them.
	s.Demux.SendDue()
	for i := 0; i < len(s.Polls.active); i++ {
		s.Polls.active[i].Conn.Poll()
	}
	if len(s.Polls.idle) > 0 {
		s.pollOneIdle()
	}
	if s.Polls.rareDue(s.wireInUse) {
		s.driveRare()
	}
}

// driveRare does the rare part of drive; see pollSchedule.rareDue.
func (s *Shard) driveRare() {
	wireInUse := s.wireInUse
	if wireInUse {
		s.udp.Poll(len(s.Polls.active) == 0 && s.armed == 0 && !s.auto)
		s.Demux.Polled()
	}
	if s.Timers.Len() > 0 && (s.draining || s.Polls.timers(wireInUse)) {
		s.FireTimers()
	}
	if s.Polls.epoll(s.epollOnly+s.udp.OverflowSockets() > 0, wireInUse) {
		s.handleReady()
		s.Polls.parkUnused()
	}
	if s.Demux.AnswersDue() {
		s.Demux.Answer(s.Clock)
	}
}

// handleReady handles the events of descriptors that are ready.
func (s *Shard) handleReady() {
	s.timeRead = false
	// Dispatch fails only if the epoll descriptor is not open (epoll_wait(2)).
	_, _ = s.epoll.Dispatch(0)
	s.udp.PollOverflow()
}

// DriveTime returns the shard's time. It reads the clock at most once in each call of
// drive.
func (s *Shard) DriveTime() time.Duration {
	if !s.timeRead {
		s.timeRead, s.timeOfDrive = true, s.Clock()
	}
	return s.timeOfDrive
}

// OnReady handles the events of the shard's own descriptors, alarm and event.
func (s *Shard) OnReady(fd int, _ uint32) {
	switch {
	case fd == s.alarm.FD():
		s.alarm.Drain()
		s.alarmAt = 0
		s.FireTimers()
	default:
		s.wake.onReady()
	}
}

// FireTimers calls the functions of the timers that are due.
func (s *Shard) FireTimers() {
	now := s.Clock()
	// A packet that has arrived may stop a timer, so packets are processed first.
	if s.draining = s.Timers.Due(now) && !s.udp.Drain(s.draining); s.draining {
		return
	}
	// If a timer fires late, its function may start the timer again for a time that is
	// already past. One call of Expire does not always fire the timer a second time, so
	// Expire is called again.
	for s.Timers.Due(now) {
		s.Timers.Expire(now)
	}
}

// setAlarm sets alarm to the time of the first timer.
func (s *Shard) setAlarm() {
	when, any := s.Timers.Next()
	if !any || when == s.alarmAt {
		// If no timer runs, alarm is not stopped. It may wake the owner once without need.
		return
	}
	s.alarmAt = when
	_ = s.alarm.Set(when - s.Clock())
}

// pollOneIdle polls the next connection of the idle list.
func (s *Shard) pollOneIdle() {
	if e := s.Polls.nextIdleEntry(); !e.Conn.IsIdle() {
		s.Polls.Activate(e)
		e.Conn.Poll()
	}
}

// run drives a shard in automatic progress until close.
func (s *Shard) run() {
	defer close(s.done)
	for {
		s.Enter()
		if s.closed {
			s.Leave()
			return
		}
		s.handleReady()
		s.drive()
		s.Leave()
		s.epoll.Await()
	}
}

// stop ends the calls of the shard. All its objects must be closed already.
func (s *Shard) stop() {
	s.Enter()
	s.closed = true
	s.wake.signal()
	s.Leave()
	if s.done != nil {
		<-s.done
	}
}

// close closes the descriptors of the shard, which was stopped.
func (s *Shard) close() {
	s.udp.CloseUnused()
	s.closeFDs()
}

func (s *Shard) closeFDs() {
	s.epoll.Close()
	_, _ = s.alarm.Close(), s.wake.event.Close()
}

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
	// there is work already, Arm returns false.
	Arm() bool
}

// A PollEntry is the entry of a connection in the schedule. Before use, Conn must be set;
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

// A shard is the owner of its sockets.

// Receive implements udp.Sink. It delivers a packet to its queue pair. Packets for
// connection management (queue pair 1) seldom arrive here, because a BPF program usually
// directs them to another socket.
func (s *Shard) Receive(p wire.Packet, from *udp.Header) (taken bool) {
	if p.BTH().DestQP() == wire.GSIQPN {
		return s.engine.Host.ReceiveMAD(p, from)
	}
	return s.Demux.Receive(p, from)
}

// Watch implements udp.Watcher.
func (s *Shard) Watch(fd int, events uint32, h fdevent.Handler) error {
	return s.epoll.Add(fd, events, h)
}

// Rewatch implements udp.Watcher.
func (s *Shard) Rewatch(fd int, events uint32) { s.epoll.Modify(fd, events) }

// Unwatch implements udp.Watcher.
func (s *Shard) Unwatch(fd int) { s.epoll.Remove(fd) }

// AddEpollOnly changes the number of listening sockets that only epoll polls.
func (s *Shard) AddEpollOnly(n int) { s.epollOnly += n }

// InUse implements udp.Watcher.
func (s *Shard) InUse(is bool) { s.wireInUse = is }

// UDPSockets returns UDP sockets for the shard; see Host.NewSockets.
func (s *Shard) UDPSockets(ports *udp.Ports) Sockets {
	return udp.NewConn(&udp.Config{Ports: ports, Slot: s.Slot, Shards: s.engine.shardsMade, Sink: s, Watcher: s, Counts: s.Counts, Tap: s.Tap})
}

// Signal implements udp.Watcher. The owner then drives the shard before it sleeps.
func (s *Shard) Signal() { s.wake.signal() }

// unusedSocketTime is how long a UDP socket without connections stays open at most. A
// new connection of the shard can use the socket. Arbitrary.
const unusedSocketTime = time.Second

// Unused implements udp.Watcher.
func (s *Shard) Unused() {
	if !s.unusedSockets.Running() {
		s.unusedSockets.Start(unusedSocketTime)
	}
}

var (
	_ udp.Sink    = (*Shard)(nil)
	_ udp.Watcher = (*Shard)(nil)
)

// A Timer calls its owner once, at a given time or later, while its shard is driven. It
// must be initialized with Init().
type Timer struct {
	timerheap.Timer
	shard *Shard
}

// Init must be called before the first Start. It sets the shard and the owner.
func (t *Timer) Init(s *Shard, owner timerheap.Owner) { t.shard, t.Owner = s, owner }

// Start makes the timer fire after the given time. A running timer gets this new time.
func (t *Timer) Start(after time.Duration) {
	t.shard.Timers.Set(&t.Timer, t.shard.Clock()+after)
}

// Again restarts a timer that has fired. The time begins when the timer was due, not
// when it has fired.
func (t *Timer) Again(after time.Duration) { t.shard.Timers.Set(&t.Timer, t.When()+after) }

// Stop stops the timer if it runs.
func (t *Timer) Stop() {
	if t.Running() {
		t.shard.Timers.Stop(&t.Timer)
	}
}
