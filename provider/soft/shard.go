//go:build linux

package soft

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A shard owns all objects that complete on the CQs of one completion vector. Driving a
// shard means to do all work that is possible without waiting.
//
// In manual progress one goroutine drives the shard by polling a CQ. This goroutine is
// the owner, and nothing is locked. In automatic progress a goroutine of the shard
// drives it too, and each call takes mu.
type shard struct {
	engine      *engine
	auto        bool
	clock       func() time.Duration // function that returns the time since the device was opened
	timeOfDrive time.Duration        // time that driveTime returns; valid if timeRead is true
	timeRead    bool                 // true if this call of drive has read the clock
	mu          sync.Mutex
	// true if a completion channel owns the shard (manual progress); guarded by
	// device.mu
	owned bool

	epoll *fdevent.Dispatcher // epoll set of the shard's descriptors
	// event is readable while a completion channel has an event, or while the owner has to
	// call drive.
	event *fdevent.Event
	// true if the owner must drive the shard before it sleeps; event is then readable,
	// unless joined is true
	signaled bool
	joined   bool // true if the owner sleeps only in compChannel.Sleep
	alarm    *fdevent.Timer

	demux qpDemux
	udp   *udp.Conn
	slot  uint32 // number of the shard; see shardKey.slot

	polls         pollSchedule
	armed         int // number of CQs that are armed
	events        int // number of queued events of channels in manual progress
	epollOnly     int // number of listening sockets that only epoll polls
	timers        timerheap.Heap
	unusedSockets timer         // timer for udp.Conn.CloseUnused
	alarmAt       time.Duration // time for which alarm is set; 0 if not set
	draining      bool          // true if a timer is due, and the sockets are read before it fires
	backlog       bool          // true if the last poll of a CQ has left completions in it
	counts        *counters.Set

	closed bool
	done   chan struct{} // closed when the goroutine of the shard has ended
}

func newShard(e *engine, key shardKey) (*shard, error) {
	auto := key.progress == verbs.ProgressAuto
	s := &shard{
		engine: e, slot: key.slot(), auto: auto, clock: e.clock, counts: new(counters.Set),
	}
	s.udp = udp.NewConn(&udp.Config{Ports: e.ports, Slot: s.slot, Shards: e.vectors, Sink: s, Watcher: s, Counts: s.counts})
	s.unusedSockets.init(s, timerheap.Func(s.udp.CloseUnused))
	s.demux = newDemux(s.udp)
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

func (s *shard) open() (err error) {
	if s.epoll, err = fdevent.NewDispatcher(); err != nil {
		return err
	}
	if s.event, err = fdevent.NewEvent(); err != nil {
		return err
	}
	if s.alarm, err = fdevent.NewTimer(); err != nil {
		return err
	}
	for _, fd := range []int{s.event.FD(), s.alarm.FD()} {
		if err = s.epoll.Add(fd, unix.EPOLLIN, s); err != nil {
			return err
		}
	}
	return nil
}

// enter begins a call into the shard, and leave ends it.
func (s *shard) enter() {
	if s.auto {
		s.mu.Lock()
	}
}

func (s *shard) leave() {
	if s.armed > 0 || s.auto {
		s.beforeSleep()
	}
}

// beforeSleep ends a call after which the owner may sleep. It sends what is due. Then it
// calls prepareSleep, unless a readable event keeps the owner awake.
func (s *shard) beforeSleep() {
	done := s.demux.sendAll()
	if !s.signaled {
		s.prepareSleep(done)
	}
	if s.auto {
		s.mu.Unlock()
	}
}

// prepareSleep makes sure that a doorbell, a descriptor or a timer wakes the owner. If
// there is work already, prepareSleep makes event readable. The parameter wireDone is
// false if the wire path has work.
func (s *shard) prepareSleep(wireDone bool) {
	if !wireDone || !s.polls.armForSleep() {
		s.signal()
		return
	}
	s.udp.Arm()
	s.setAlarm()
}

// drive does all work that is possible without waiting. It sends what is due, and polls
// connections. Sockets, timers and epoll are checked less often.
func (s *shard) drive() {
	s.polls.begin()
	s.timeRead = false
	if s.joined {
		s.signaled = false
	}
	// Packets are sent first, because the peer may be waiting for them.
	s.demux.sendDue()
	for i := 0; i < len(s.polls.active); i++ {
		s.polls.active[i].conn.poll()
	}
	if len(s.polls.idle) > 0 {
		s.pollOneIdle()
	}
	if s.polls.rareDue(s.udp.InUse()) {
		s.driveRare()
	}
}

// driveRare does the rare part of drive; see pollSchedule.rareDue.
func (s *shard) driveRare() {
	wireInUse := s.udp.InUse()
	if wireInUse {
		s.udp.Poll(len(s.polls.active) == 0 && s.armed == 0 && !s.auto)
		s.demux.polled()
	}
	if s.timers.Len() > 0 && (s.draining || s.polls.timers(wireInUse)) {
		s.fireTimers()
	}
	if s.polls.epoll(s.epollOnly+s.udp.OverflowSockets() > 0, wireInUse) {
		s.handleReady()
		s.polls.parkUnused()
	}
	if s.demux.answersDue() {
		s.demux.answer(s.clock)
	}
}

// handleReady handles the events of descriptors that are ready.
func (s *shard) handleReady() {
	s.timeRead = false
	// Dispatch fails only if the epoll descriptor is not open (epoll_wait(2)).
	_, _ = s.epoll.Dispatch(0)
	s.udp.PollOverflow()
}

// driveTime returns the shard's time. It reads the clock at most once in each call of
// drive.
func (s *shard) driveTime() time.Duration {
	if !s.timeRead {
		s.timeRead, s.timeOfDrive = true, s.clock()
	}
	return s.timeOfDrive
}

// OnReady handles the events of the shard's own descriptors, alarm and event.
func (s *shard) OnReady(fd int, _ uint32) {
	switch {
	case fd == s.alarm.FD():
		s.alarm.Drain()
		s.alarmAt = 0
		s.fireTimers()
	case s.events == 0:
		s.event.Drain()
		s.signaled = false
	}
}

// fireTimers calls the functions of the timers that are due.
func (s *shard) fireTimers() {
	now := s.clock()
	// A packet that has arrived may stop a timer, so packets are processed first.
	if s.draining = s.timers.Due(now) && !s.udp.Drain(s.draining); s.draining {
		return
	}
	// If a timer fires late, its function may start the timer again for a time that is
	// already past. One call of Expire does not always fire the timer a second time, so
	// Expire is called again.
	for s.timers.Due(now) {
		s.timers.Expire(now)
	}
}

// setAlarm sets alarm to the time of the first timer.
func (s *shard) setAlarm() {
	when, any := s.timers.Next()
	if !any || when == s.alarmAt {
		// If no timer runs, alarm is not stopped. It may wake the owner once without need.
		return
	}
	s.alarmAt = when
	_ = s.alarm.Set(when - s.clock())
}

// pollOneIdle polls the next connection of the idle list.
func (s *shard) pollOneIdle() {
	if e := s.polls.nextIdleEntry(); !e.conn.isIdle() {
		s.polls.activate(e)
		e.conn.poll()
	}
}

// signal makes the owner drive the shard before it sleeps. Unless joined is true, signal
// makes event readable.
func (s *shard) signal() {
	if s.signaled {
		return
	}
	s.signaled = true
	if !s.joined {
		s.event.Signal()
	}
}

// run drives a shard in automatic progress until close.
func (s *shard) run() {
	defer close(s.done)
	for {
		s.enter()
		if s.closed {
			s.leave()
			return
		}
		s.handleReady()
		s.drive()
		s.leave()
		s.epoll.Await()
	}
}

// stop ends the calls of the shard. All its objects must be closed already.
func (s *shard) stop() {
	s.enter()
	s.closed = true
	s.signal()
	s.leave()
	if s.done != nil {
		<-s.done
	}
}

// close closes the descriptors of the shard, which was stopped.
func (s *shard) close() {
	s.udp.CloseUnused()
	s.closeFDs()
}

func (s *shard) closeFDs() {
	s.epoll.Close()
	_, _ = s.alarm.Close(), s.event.Close()
}
