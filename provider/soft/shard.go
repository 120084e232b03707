//go:build linux

package soft

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
	"github.com/rdmaloop/rdmaloop/internal/timerfd"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/epollset"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// epollEvery is the number of calls of drive after which a shard polls its epoll
	// descriptor. If the owner never sleeps, only this poll finds descriptors that are
	// ready. The number is arbitrary.
	epollEvery = 1024
	// epollEveryUD replaces epollEvery on a shard that has UD queue pairs on the local
	// path, or overflow sockets of the wire path, because their messages arrive at
	// descriptors that only epoll reports. Such a shard also polls epoll whenever it has
	// polled the wire's sockets. The number is arbitrary.
	epollEveryUD = 16
	// clockEvery is the number of calls of drive after which running timers are checked.
	// It is arbitrary.
	clockEvery = 16
	// idleAfter is the number of calls of drive without work after which a connection
	// moves to the idle list. It is arbitrary.
	idleAfter = 256
	// maxPolledIdle is how many connections are polled even if they have no work for a
	// long time. If there are more, a connection without work during parkAfter calls of
	// drive is parked, so that the connections on the idle list are polled often. Both
	// numbers are arbitrary.
	maxPolledIdle = 8
	parkAfter     = 4096
)

// A shard owns what completes on the CQs of one completion vector: queue pairs, their
// paths and their timers. To drive a shard is to do all work that is possible without
// waiting; see drive. In manual progress one goroutine, the owner, calls the shard, and
// drives it by polling a CQ; nothing is locked. In automatic progress a goroutine of the
// shard drives it too, and every call takes mu.
//
// A connection on the local path is in one of three states. Active: each call of drive
// polls the connection. Idle: the connection had no work for a while, and each call of
// drive polls only one of the idle connections, so that they do not slow down the active
// ones. Parked: the connection is on neither list, and the peer rings its doorbell,
// which the epoll descriptor watches. Before the owner may go to sleep, which is so if a
// CQ is armed or progress is automatic, the connections on the lists are parked too; up
// to maxPolledIdle of them stay on the lists.
type shard struct {
	dev   *device
	auto  bool
	clock func() int64
	mu    sync.Mutex
	// in manual progress: true if a channel owns the shard; guarded by device.mu
	owned bool

	epoll *epollset.Set // descriptors of the shard
	// readable while a channel has an event, or while the owner has to call drive
	eventfd int
	// true if eventfd is readable, so that the owner does not sleep before it calls
	// drive
	signaled bool
	timerfd  int

	wire qpDemux
	udp  *udp.Conn
	slot uint32 // number of the shard; see shardKey.slot

	active        []*shmConn // connections that each drive polls
	idle          []*shmConn // connections of which each drive polls one, in turn
	nextIdle      int        // index in idle of the connection that was polled last
	armed         int        // CQs that are armed
	events        int        // queued events of channels in manual progress
	datagrams     int        // number of UD queue pairs on the local path
	udQueuedBytes int        // bytes of UD datagrams that wait for room in a socket; see maxShardQueue
	timers        timerheap.Heap
	alarmAt       int64    // time to which timerfd is set, on the device's clock; 0 if not set
	drives        uint32   // number of calls of drive so far; wraps
	doorbellBuf   [64]byte // buffer for bytes read from doorbells
	counts        *counters.Set

	closed bool
	done   chan struct{} // closed when the goroutine of the shard has ended
}

func newShard(d *device, key shardKey) (*shard, error) {
	auto := key.progress == verbs.ProgressAuto
	s := &shard{
		dev: d, slot: key.slot(), auto: auto, clock: d.now, counts: new(counters.Set),
		eventfd: -1, timerfd: -1,
	}
	s.udp = udp.NewConn(&udp.Config{Ports: d.udp, Slot: s.slot, Shards: d.cfg.Vectors, Sink: s, Watcher: s, Counts: s.counts})
	s.wire.conn = s.udp
	if err := s.open(); err != nil {
		s.closeFDs()
		return nil, err
	}
	if auto {
		s.done = make(chan struct{})
		go s.run()
	}
	return s, nil
}

func (s *shard) open() (err error) {
	if s.epoll, err = epollset.New(); err != nil {
		return err
	}
	if s.eventfd, err = eventfd.New(); err != nil {
		return err
	}
	if s.timerfd, err = timerfd.New(); err != nil {
		return err
	}
	for _, fd := range []int{s.eventfd, s.timerfd} {
		if err = s.epoll.Add(fd, unix.EPOLLIN, s); err != nil {
			return err
		}
	}
	return nil
}

// enter begins a call into the shard, and leave ends it. In manual progress only the
// owner may call them.
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

// beforeSleep ends a call after which the owner may go to sleep. While eventfd is
// readable there is nothing to prepare: the owner drives the shard before it can sleep,
// and that call ends with beforeSleep again.
func (s *shard) beforeSleep() {
	done := s.wire.sendAll()
	if !s.signaled {
		s.prepareSleep(done)
	}
	if s.auto {
		s.mu.Unlock()
	}
}

// prepareSleep makes sure that the owner is woken: by a doorbell, by a descriptor, by a
// timer, or at once if there is work. It stops at the first work that it finds, which
// includes unfinished work of the wire path. So between two calls of drive it visits few
// connections more than once, however often it is called. Connections that were parked
// have left the lists, except for maxPolledIdle of them. After a connection that can not
// be parked, eventfd is readable, and beforeSleep does not call prepareSleep.
func (s *shard) prepareSleep(wireDone bool) {
	if !wireDone || !s.parkConns(s.idle) || !s.parkConns(s.active) {
		s.signal()
		return
	}
	s.udp.Arm()
	s.setAlarm()
}

// parkConns parks connections, and returns false at the first one that has work.
func (s *shard) parkConns(conns []*shmConn) bool {
	for _, c := range slices.Backward(conns) {
		if !c.park() {
			return false
		}
		if s.polledCount() > maxPolledIdle {
			s.setPollList(c, nil) // The doorbell is sufficient to wake the owner.
		}
	}
	return true
}

// drive does all work that is possible without waiting: it sends what is due, polls
// sockets and connections, and checks the timers and epoll every few calls.
func (s *shard) drive() {
	s.drives++
	// Sending comes first, because the peer may wait for it.
	s.wire.sendDue()
	if s.udp.InUse() && (len(s.active) == 0 || s.drives%epollEveryUD == 0) {
		s.udp.Poll(len(s.active) == 0 && s.armed == 0 && !s.auto)
	}
	for i := 0; i < len(s.active); i++ {
		s.active[i].poll()
	}
	if len(s.idle) > 0 {
		s.pollOneIdle()
	}
	if s.timers.Len() > 0 && s.drives%clockEvery == 0 {
		s.fireTimers()
	}
	if s.drives%epollEvery == 0 || s.datagrams+s.udp.OverflowSockets() > 0 && (s.drives%epollEveryUD == 0 || len(s.active) == 0 && s.udp.InUse()) {
		_ = s.epoll.Dispatch() // After EINTR the next call sees the events.
		s.demoteIdle()
	}
}

// OnReady handles the events of the shard's own descriptors, timerfd and eventfd.
func (s *shard) OnReady(fd int, _ uint32) {
	switch {
	case fd == s.timerfd:
		timerfd.Drain(fd)
		s.alarmAt = 0
		s.fireTimers()
	case s.events == 0:
		eventfd.Drain(fd)
		s.signaled = false
	}
}

// fireTimers calls the functions of the timers that are due.
func (s *shard) fireTimers() {
	now := time.Duration(s.clock())
	if s.timers.Due(now) {
		s.udp.Drain() // a timer must not fire if the packet it waits for has arrived
	}
	// A timer that has fired late may start itself again with a time that has passed
	// already.
	for s.timers.Due(now) {
		s.timers.Expire(now)
	}
}

// setAlarm sets timerfd to the time of the first timer, if it is not set to it already.
func (s *shard) setAlarm() {
	next, any := s.timers.Next()
	when := int64(next)
	if !any || when == s.alarmAt {
		return // timerfd may expire when no timer is due. That does no harm.
	}
	s.alarmAt = when
	_ = timerfd.Set(s.timerfd, time.Duration(when-s.clock()))
}

// pollOneIdle polls one connection of the idle list, each in its turn.
func (s *shard) pollOneIdle() {
	if s.nextIdle++; s.nextIdle >= len(s.idle) {
		s.nextIdle = 0
	}
	if c := s.idle[s.nextIdle]; !c.isIdle() {
		s.makeActive(c)
		c.poll()
	}
}

// makeActive moves a connection to the active list.
func (s *shard) makeActive(c *shmConn) {
	c.lastWork = s.drives
	if c.pollList != &s.active {
		s.setPollList(c, &s.active)
	}
}

// setPollList moves a connection from its list, if any, to another list, or to none.
func (s *shard) setPollList(c *shmConn, to *[]*shmConn) {
	if from := c.pollList; from != nil {
		last := len(*from) - 1
		moved := (*from)[last]
		(*from)[c.pollIndex], moved.pollIndex = moved, c.pollIndex
		(*from)[last] = nil
		*from = (*from)[:last]
	}
	if c.pollList = to; to != nil {
		c.pollIndex = len(*to)
		*to = append(*to, c)
	}
}

// polledCount returns how many connections are active or idle.
func (s *shard) polledCount() int { return len(s.active) + len(s.idle) }

// demoteIdle parks connections that were idle for long, if there are more than
// maxPolledIdle.
func (s *shard) demoteIdle() {
	if s.polledCount() > maxPolledIdle {
		s.parkIdle(s.idle)
		s.parkIdle(s.active)
	}
}

// parkIdle removes from a list the connections that had no work during parkAfter calls
// of drive, and parks them, until maxPolledIdle are left.
func (s *shard) parkIdle(conns []*shmConn) {
	for _, c := range slices.Backward(conns) {
		if s.polledCount() > maxPolledIdle && s.drives-c.lastWork > parkAfter && c.park() {
			s.setPollList(c, nil)
		}
	}
}

// signal makes eventfd, and with it the descriptors of the shard's channels, readable
// until the owner drives the shard.
func (s *shard) signal() {
	if !s.signaled {
		s.signaled = true
		eventfd.Signal(s.eventfd)
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
		_ = s.epoll.Dispatch() // After EINTR the next call sees the events.
		s.drive()
		s.leave()
		s.epoll.Wait()
	}
}

// close ends the shard. All its objects are closed already.
func (s *shard) close() {
	s.enter()
	s.closed = true
	s.signal()
	s.leave()
	if s.done != nil {
		<-s.done
	}
	s.closeFDs()
}

func (s *shard) closeFDs() {
	if s.epoll != nil {
		s.epoll.Close()
	}
	for _, fd := range []int{s.timerfd, s.eventfd} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
