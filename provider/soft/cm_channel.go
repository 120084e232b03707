//go:build linux

package soft

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A channel is a queue of connection-management events, and the loop that makes
// them: it waits on the sockets of its IDs, and does their work in Next. It
// implements cm.TransportChannel. Its lock covers its IDs, too; who needs the
// locks of two channels takes that with the lower descriptor first. Under the
// lock the device is called, which does not call back.
type channel struct {
	dev     *device
	epoll   int // holds the sources, the bell and the alarm
	timerFD int // timerfd, readable when a timer is due
	clock   func() time.Time
	inbox   inbox

	mu            sync.Mutex
	closed        bool
	sources       map[int32]readableSource // by descriptor
	queue         eventQueue
	timers        deadlines
	timerFDExpiry time.Time            // when the alarm goes off; zero: never
	packet        [maxMessage + 1]byte // one byte more shows what is too long
	localAddrs    localAddrCache

	// On the wire: the ports whose datagrams this channel takes, each with how
	// many of its IDs use it, and the carriers that outlive their IDs.
	ports   map[*madPort]int
	orphans map[*madConn]struct{}
}

// watched is the owner of a descriptor. readable does the work that is due; it
// never blocks, and may be called in vain.
type readableSource interface{ readable() }

const maxEventChannels = 1 << 16

// OpenChannel opens an event channel; see cm.Transport.
func (p *Provider) OpenChannel() (cm.TransportChannel, error) {
	if err := p.dev.add(objEventChannel, "event channels", maxEventChannels); err != nil {
		return nil, verbs.Wrap("open event channel", err)
	}
	ch := &channel{
		dev: p.dev, epoll: -1, timerFD: -1, clock: time.Now, inbox: inbox{eventfd: -1},
		sources: make(map[int32]readableSource), ports: make(map[*madPort]int), orphans: make(map[*madConn]struct{}),
	}
	if err := ch.open(); err != nil {
		_ = ch.Close()
		return nil, verbs.Wrap("open event channel", err)
	}
	return ch, nil
}

func (ch *channel) open() (err error) {
	if ch.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if ch.inbox.eventfd, err = newEventfd(); err != nil {
		return err
	}
	if ch.timerFD, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return err
	}
	if err = ch.register(ch.inbox.eventfd); err != nil {
		return err
	}
	return ch.register(ch.timerFD)
}

// FD is an epoll descriptor.
func (ch *channel) FD() int { return ch.epoll }

// Close closes the channel.
func (ch *channel) Close() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return nil
	}
	for c := range ch.orphans {
		c.release()
	}
	ch.closed = true
	ch.inbox.close()
	for _, fd := range []int{ch.epoll, ch.inbox.eventfd, ch.timerFD} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	ch.dev.remove(objEventChannel)
	return nil
}

// NewID makes an ID.
func (ch *channel) NewID(ps cm.PortSpace) (cm.TransportID, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return nil, verbs.ErrClosed
	}
	return newID(ch, ps), nil
}

// Next takes the oldest event, and looks for work when there is none.
func (ch *channel) Next(ev *cm.TransportEvent) (bool, error) {
	ch.mu.Lock()
	defer ch.unlock()
	if ch.closed {
		return false, verbs.ErrClosed
	}
	if ch.queue.empty() {
		if err := ch.drive(); err != nil {
			return false, err
		}
	}
	if !ch.queue.pop(ev) {
		return false, nil
	}
	if ev.Type == cm.ConnectRequest {
		ev.ID.(*id).requestFetched()
	}
	return true, nil
}

// drive does the work that is due: that of the sockets, then that of the timers.
// It makes one round, so that peers who talk without end can not hold it.
func (ch *channel) drive() error {
	var ready [64]unix.EpollEvent
	n, err := epollNow(ch.epoll, ready[:])
	if err != nil {
		return err
	}
	for _, e := range ready[:n] {
		// One that was closed by another of this round is gone from the map. A
		// new one under its number is asked in vain, which does no harm.
		if s := ch.sources[e.Fd]; s != nil {
			s.readable()
		}
	}
	for _, job := range ch.inbox.takeBatch() {
		job()
	}
	ch.expire()
	return nil
}

// expire calls the timers that are due. The clock is read once.
func (ch *channel) expire() {
	if len(ch.timers) == 0 {
		return
	}
	now := ch.clock()
	for t := ch.timers.due(now); t != nil; t = ch.timers.due(now) {
		t.fire(now)
	}
}

// unlock ends whatever was done under the lock, and makes the descriptor tell
// what is left: events to fetch, or the next timer.
func (ch *channel) unlock() {
	if !ch.closed {
		ch.inbox.signal(!ch.queue.empty())
		ch.armTimerFD()
	}
	ch.mu.Unlock()
}

// armTimerFD sets the alarm when a timer is due before it. An alarm for a timer
// that was stopped is left to go off in vain: that is cheaper than to set it for
// each connection.
func (ch *channel) armTimerFD() {
	if len(ch.timers) == 0 && ch.timerFDExpiry.IsZero() {
		return
	}
	now := ch.clock()
	gone := !ch.timerFDExpiry.IsZero() && !now.Before(ch.timerFDExpiry)
	next, any := ch.timers.next()
	var spec unix.ItimerSpec
	switch {
	case any && gone && !next.After(now):
		// The timer has expired, and the descriptor stays readable until the timer is set
		// again.
		return
	case any && (ch.timerFDExpiry.IsZero() || gone || next.Before(ch.timerFDExpiry)):
		// Setting the time to zero would stop the alarm.
		spec.Value = unix.NsecToTimespec(max(1, next.Sub(now).Nanoseconds()))
		ch.timerFDExpiry = next
	case gone:
		ch.timerFDExpiry = time.Time{}
	default:
		return
	}
	// Fails on invalid arguments only; see timerfd_settime(2).
	_ = unix.TimerfdSettime(ch.timerFD, 0, &spec, nil)
}

// watch has a descriptor's source called when there is something to read, or the
// peer hung up.
func (ch *channel) watch(fd int, s readableSource) error {
	if err := ch.register(fd); err != nil {
		return err
	}
	ch.sources[int32(fd)] = s
	return nil
}

// watchErrors makes the channel call the source of a descriptor only when the
// descriptor has an error. Epoll always reports errors (epoll_ctl(2)).
func (ch *channel) watchErrors(fd int, s readableSource) error {
	if err := ch.registerFor(fd, 0); err != nil {
		return err
	}
	ch.sources[int32(fd)] = s
	return nil
}

func (ch *channel) register(fd int) error {
	return ch.registerFor(fd, unix.EPOLLIN|unix.EPOLLRDHUP)
}

func (ch *channel) registerFor(fd int, events uint32) error {
	return unix.EpollCtl(ch.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// unwatch ends it. The descriptor is still open.
func (ch *channel) unwatch(fd int) {
	if ch.sources[int32(fd)] != nil && !ch.closed {
		_ = unix.EpollCtl(ch.epoll, unix.EPOLL_CTL_DEL, fd, nil)
		delete(ch.sources, int32(fd))
	}
}
