//go:build linux

package qp

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
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

	Demux packets.Demux
	udp   *udp.Conn
	Slot  uint32 // number of the shard; see shardKey.slot

	Polls         pollSchedule
	armed         int // number of CQs that are armed
	events        int // number of queued events of channels in manual progress
	epollOnly     int // number of listening sockets that only epoll polls
	Timers        timerheap.Heap
	unusedSockets Timer         // timer for udp.Conn.CloseUnused
	alarmAt       time.Duration // time for which alarm is set; 0 if not set
	draining      bool          // true if a timer is due, and the sockets are read before it fires
	backlog       bool          // true if the last poll of a CQ has left completions in it
	Counts        *counters.Set

	closed bool
	done   chan struct{} // closed when the goroutine of the shard has ended
}

func newShard(e *Engine, key shardKey) (*Shard, error) {
	auto := key.progress == verbs.ProgressAuto
	s := &Shard{
		engine: e, Slot: key.slot(), auto: auto, Clock: e.Clock, Counts: new(counters.Set),
	}
	s.udp = udp.NewConn(&udp.Config{Ports: e.Ports, Slot: s.Slot, Shards: e.Vectors, Sink: s, Watcher: s, Counts: s.Counts})
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
func (s *Shard) prepareSleep(wireDone bool) {
	if !wireDone || !s.Polls.armForSleep() {
		s.signal()
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
	if s.joined {
		s.signaled = false
	}
	// Packets are sent first, because the peer may be waiting for them.
	s.Demux.SendDue()
	for i := 0; i < len(s.Polls.active); i++ {
		s.Polls.active[i].Conn.Poll()
	}
	if len(s.Polls.idle) > 0 {
		s.pollOneIdle()
	}
	if s.Polls.rareDue(s.udp.InUse()) {
		s.driveRare()
	}
}

// driveRare does the rare part of drive; see pollSchedule.rareDue.
func (s *Shard) driveRare() {
	wireInUse := s.udp.InUse()
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
	case s.events == 0:
		s.event.Drain()
		s.signaled = false
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

// signal makes the owner drive the shard before it sleeps. Unless joined is true, signal
// makes event readable.
func (s *Shard) signal() {
	if s.signaled {
		return
	}
	s.signaled = true
	if !s.joined {
		s.event.Signal()
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
	s.signal()
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
	_, _ = s.alarm.Close(), s.event.Close()
}
