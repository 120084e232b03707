//go:build linux

package soft

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// epollEvery is after how many drives the descriptors are looked at: the
	// owner may spin, or be busy with other links, and hears of them in no other
	// way.
	epollEvery = 1024
	// epollEveryUD replaces epollEvery on a shard that has UD queue pairs on the
	// local path, or sockets of overflowSockets, because their messages arrive by descriptors
	// only. Whenever the shard has polled the wire's sockets, it looks at the descriptors
	// too.
	epollEveryUD = 16
	// clockEvery is after how many drives running timers are checked.
	clockEvery = 16
	// idleAfter is after how many drives without traffic a link dozes.
	idleAfter = 256
	// maxPolledIdle is how many links are polled however idle they are, and
	// parkAfter after how many drives without traffic one beyond that
	// number is left to its doorbell, so that those that doze are asked often.
	maxPolledIdle = 8
	parkAfter     = 4096
	// maxReady is how many descriptors one look handles.
	maxReady = 64
)

// A shard owns what completes on the CQs of one completion vector: queue pairs,
// their paths, timers. In manual progress one goroutine calls and nothing is
// locked; in automatic progress a goroutine of the shard's own drives it too,
// and mu is taken by every call.
//
// A link is hot while it is polled at each drive. One that has been idle for a
// while dozes: each drive asks one of those, so that a busy link is as fast among
// idle ones as alone. What is on neither list is parked: the peer rings its doorbell,
// which the epoll descriptor watches. While the owner may go to sleep (some CQ is
// armed, or progress is automatic) the others are parked as well.
type shard struct {
	dev   *device
	auto  bool
	clock func() int64
	mu    sync.Mutex
	owned bool // manual progress: a channel has it; the device's lock guards this

	epfd     int
	eventfd  int  // eventfd: an event waits in a channel, or the goroutine has to look
	signaled bool // soft is readable, so the owner can not sleep before it looks
	timerfd  int
	sources  map[int32]readySource // by descriptor, what epoll watches

	wire qpDemux
	udp  udpConn

	active        []*shmConn // polled at each drive
	idle          []*shmConn // asked in turn
	nextIdle      int        // index of the one that was asked last
	armed         int        // CQs that are armed and have not fired
	events        int        // events that wait in channels without a descriptor of their own
	datagrams     int        // number of UD queue pairs on the local path and sockets of overflowSockets
	udQueuedBytes int        // bytes of datagrams that wait for room in a socket, see maxShardQueue
	timers        timerHeap
	alarmAt       int64 // what timerfd is set to; 0 when it is not
	drives        uint32
	ready         [maxReady]unix.EpollEvent
	doorbellBuf   [64]byte // where rings of bells are read to
	counts        *counters

	closed bool
	done   chan struct{} // closed when the goroutine has ended
}

// A watcher is told when a descriptor of its own is ready.
type readySource interface {
	onReady(fd int, events uint32)
}

func newShard(d *device, key shardKey) (*shard, error) {
	auto := key.progress == verbs.ProgressAuto
	s := &shard{dev: d, auto: auto, clock: d.now, sources: make(map[int32]readySource), counts: new(counters), epfd: -1, eventfd: -1, timerfd: -1}
	s.udp = udpConn{s: s, slot: key.slot()}
	s.wire.conn = &s.udp
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
	if s.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if s.eventfd, err = eventfd.New(); err != nil {
		return err
	}
	if s.timerfd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return err
	}
	for _, fd := range []int{s.eventfd, s.timerfd} {
		if err = s.watch(fd, unix.EPOLLIN, s); err != nil {
			return err
		}
	}
	return nil
}

// enter and leave bracket every call into the shard.
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

// settle ends a call after which the owner may go to sleep. While soft is readable
// there is nothing to prepare: the owner looks before it can sleep, and the end of
// that call calls settle again.
func (s *shard) beforeSleep() {
	done := s.wire.sendAll()
	if !s.signaled {
		s.prepareSleep(done)
	}
	if s.auto {
		s.mu.Unlock()
	}
}

// prepareSleep makes sure that the owner is woken: by the peers' doorbells, by a
// timer, or at once if there is work. It stops at the first work that it finds, which
// includes unfinished work of the wire. So between two looks of the owner few links
// are visited more than once, however many calls there are. Parked links have left
// the lists, except for maxPolledIdle of them; and after a link that can not be parked,
// soft is readable and settle does not call prepareSleep.
func (s *shard) prepareSleep(wireDone bool) {
	if !wireDone || !s.parkConns(s.idle) || !s.parkConns(s.active) {
		s.signal()
		return
	}
	s.udp.watch()
	s.setAlarm()
}

// parkConns parks the links, and returns false at the first link that has work.
func (s *shard) parkConns(links []*shmConn) bool {
	for _, l := range slices.Backward(links) {
		if !l.park() {
			return false
		}
		if s.polledCount() > maxPolledIdle {
			s.setPollList(l, nil) // its bell is enough
		}
	}
	return true
}

// watch adds a descriptor to those that wake the owner.
func (s *shard) watch(fd int, events uint32, w readySource) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd)}
	if err := unix.EpollCtl(s.epfd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return err
	}
	s.sources[int32(fd)] = w
	return nil
}

func (s *shard) unwatch(fd int) {
	if _, ok := s.sources[int32(fd)]; ok {
		delete(s.sources, int32(fd))
		_ = unix.EpollCtl(s.epfd, unix.EPOLL_CTL_DEL, fd, nil)
	}
}

// rewatch changes the events for which a watched descriptor wakes the owner. The
// kernel always reports a hangup of the peer.
func (s *shard) rewatch(fd int, events uint32) {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd)}
	_ = unix.EpollCtl(s.epfd, unix.EPOLL_CTL_MOD, fd, &ev)
}

// drive moves what can be moved, without blocking. It is what polling a CQ does
// first.
func (s *shard) drive() {
	s.drives++
	// First what is to be sent: the peer may wait for it.
	s.wire.sendDue()
	if len(s.udp.sockets) > 0 && (len(s.active) == 0 || s.drives%epollEveryUD == 0) {
		s.udp.poll(len(s.active) == 0 && s.armed == 0 && !s.auto)
	}
	for i := 0; i < len(s.active); i++ {
		s.active[i].poll()
	}
	if len(s.idle) > 0 {
		s.pollOneIdle()
	}
	if len(s.timers) > 0 && s.drives%clockEvery == 0 {
		s.fireTimers()
	}
	if s.drives%epollEvery == 0 || s.datagrams > 0 && (s.drives%epollEveryUD == 0 || len(s.active) == 0 && len(s.udp.sockets) > 0) {
		s.handleReady()
		s.demoteIdle()
	}
}

// look handles the descriptors that are ready.
func (s *shard) handleReady() {
	n, err := epollNow(s.epfd, s.ready[:])
	if err != nil {
		return // EINTR: the next look sees it
	}
	for i := range n {
		// An earlier one may have taken the owner away.
		if w := s.sources[s.ready[i].Fd]; w != nil {
			w.onReady(int(s.ready[i].Fd), s.ready[i].Events)
		}
	}
}

// onReady is for the shard's own descriptors.
func (s *shard) onReady(fd int, _ uint32) {
	switch {
	case fd == s.timerfd:
		eventfd.Drain(fd)
		s.alarmAt = 0
		s.fireTimers()
	case s.events == 0:
		eventfd.Drain(fd)
		s.signaled = false
	}
}

func (s *shard) fireTimers() {
	now := s.clock()
	if len(s.timers) > 0 && s.timers[0].when <= now {
		s.udp.drain() // what has arrived may be what the timer waits for
	}
	for len(s.timers) > 0 && s.timers[0].when <= now {
		t := s.timers[0]
		t.stop()
		t.fire()
	}
}

// setAlarm sets timerfd to the next timer, if it is not yet.
func (s *shard) setAlarm() {
	var when int64
	if len(s.timers) > 0 {
		when = s.timers[0].when
	}
	if when == s.alarmAt || when == 0 {
		return // an alarm that comes for nothing does no harm
	}
	s.alarmAt = when
	wait := max(time.Duration(when-s.clock()), 1)
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(wait))}
	_ = unix.TimerfdSettime(s.timerfd, 0, &spec, nil)
}

// glance asks one of the links that doze, each in its turn.
func (s *shard) pollOneIdle() {
	if s.nextIdle++; s.nextIdle >= len(s.idle) {
		s.nextIdle = 0
	}
	if l := s.idle[s.nextIdle]; !l.isIdle() {
		s.makeActive(l)
		l.poll()
	}
}

// heat makes a link one that is polled at each drive.
func (s *shard) makeActive(l *shmConn) {
	l.lastWork = s.drives
	if l.pollList != &s.active {
		s.setPollList(l, &s.active)
	}
}

// move takes a link from the list that it is on, if any, to another one, or to none.
func (s *shard) setPollList(l *shmConn, to *[]*shmConn) {
	if from := l.pollList; from != nil {
		last := len(*from) - 1
		moved := (*from)[last]
		(*from)[l.pollIndex], moved.pollIndex = moved, l.pollIndex
		(*from)[last] = nil
		*from = (*from)[:last]
	}
	if l.pollList = to; to != nil {
		l.pollIndex = len(*to)
		*to = append(*to, l)
	}
}

// polled is how many links are not left to their doorbells.
func (s *shard) polledCount() int { return len(s.active) + len(s.idle) }

// cool leaves idle links to their doorbells, beyond a number that is polled
// anyway.
func (s *shard) demoteIdle() {
	if s.polledCount() > maxPolledIdle {
		s.parkIdle(s.idle)
		s.parkIdle(s.active)
	}
}

func (s *shard) parkIdle(links []*shmConn) {
	for _, l := range slices.Backward(links) {
		if s.polledCount() > maxPolledIdle && s.drives-l.lastWork > parkAfter && l.park() {
			s.setPollList(l, nil)
		}
	}
}

// signal makes the descriptors of the shard's channels readable until the owner
// looks.
func (s *shard) signal() {
	if !s.signaled {
		s.signaled = true
		eventfd.Signal(s.eventfd)
	}
}

// run drives a shard in automatic progress.
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
		waitReadable(s.epfd)
	}
}

// close ends the shard, whose objects are closed.
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
	for _, fd := range []int{s.timerfd, s.eventfd, s.epfd} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
