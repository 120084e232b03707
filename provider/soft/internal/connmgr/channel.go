//go:build linux

package connmgr

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A channel implements cm.TransportChannel. Its method Next reads the sockets and runs
// the timers of the channel's IDs.
//
// The lock of a channel guards its IDs. To lock two channels, a goroutine locks the
// channel with the lower epoll descriptor first. A goroutine that holds the lock may call
// the Engine.
type channel struct {
	m *Manager
	// epoll watches the sockets, alarm and the event of the inbox.
	epoll *fdevent.Dispatcher
	alarm *fdevent.Timer // readable when a timer is due
	clock func() time.Time
	inbox inbox

	mu       sync.Mutex
	closed   bool
	queue    eventQueue
	timers   timerheap.Heap
	alarmSet bool // true if alarm is set to expire at alarmAt
	alarmAt  time.Duration
	// packet is the buffer in which messages of the local path are received. It is one byte
	// longer than the longest valid message, so that longer packets are detected.
	packet [maxMessage + 1]byte
	// Argument of QueuePair.Modify. It is a field, because a local variable would be
	// allocated on the heap.
	attr       verbs.QPAttr
	localAddrs hostport.LocalAddrCache
	ports      portUsers
	// orphans are the connections whose IDs were destroyed before the peer has answered their
	// DREQ.
	orphans map[*madConn]struct{}
}

func openChannel(m *Manager) (*channel, error) {
	if err := m.Engine.AddChannel(); err != nil {
		return nil, err
	}
	ch := &channel{
		m: m, clock: time.Now, orphans: make(map[*madConn]struct{}),
	}
	ch.initPorts()
	if err := ch.open(); err != nil {
		_ = ch.Close()
		return nil, err
	}
	return ch, nil
}

func (ch *channel) open() (err error) {
	if ch.epoll, err = fdevent.NewDispatcher(); err != nil {
		return err
	}
	if ch.inbox.event, err = fdevent.NewEvent(); err != nil {
		return err
	}
	if ch.alarm, err = fdevent.NewTimer(); err != nil {
		return err
	}
	if err = ch.epoll.Attach(ch.inbox.event.FD(), unix.EPOLLIN); err != nil {
		return err
	}
	return ch.epoll.Attach(ch.alarm.FD(), unix.EPOLLIN)
}

// FD implements cm.TransportChannel. It returns an epoll descriptor.
func (ch *channel) FD() int { return ch.epoll.FD() }

// Close implements cm.TransportChannel. It closes the descriptors and releases the
// orphans. A second call does nothing.
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
	ch.closeUnusedPorts()
	ch.inbox.close()
	ch.epoll.Close()
	_, _ = ch.inbox.event.Close(), ch.alarm.Close()
	ch.m.Engine.RemoveChannel()
	return nil
}

// NewID implements cm.TransportChannel.
func (ch *channel) NewID(ps cm.PortSpace) (cm.TransportID, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return nil, verbs.ErrClosed
	}
	return newID(ch, ps), nil
}

// Next implements cm.TransportChannel. It calls drive() only when no event is queued.
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

// drive handles each readable descriptor once, and runs the jobs of the inbox and the
// timers that are due. The caller holds the channel's lock.
func (ch *channel) drive() error {
	ch.inbox.begin()
	if _, err := ch.epoll.Dispatch(0); err != nil {
		return err
	}
	jobs := ch.inbox.takeBatch()
	for n := range jobs {
		j := &jobs[n]
		if j.isNew() {
			j.request.admit(ch, j)
		} else if j.target.onChannel(ch, j) {
			j.run(j)
		}
		*j = job{}
	}
	ch.expire()
	return nil
}

// expire runs the timers that are due at the present time.
func (ch *channel) expire() {
	if ch.timers.Len() > 0 {
		ch.timers.Expire(ch.now())
	}
}

// now returns the time since Config.Start. The timers of all channels use this clock.
func (ch *channel) now() time.Duration { return ch.sinceStart(ch.clock()) }

func (ch *channel) sinceStart(t time.Time) time.Duration { return t.Sub(ch.m.Start) }

func (ch *channel) startTimer(t *timerheap.Timer, after time.Duration) {
	ch.timers.Set(t, ch.now()+after)
}

// unlock updates alarm and the event of the inbox, and then unlocks the channel. The
// event stays readable while events or jobs are queued.
func (ch *channel) unlock() {
	if !ch.closed {
		ch.inbox.signal(!ch.queue.empty())
		ch.setAlarm()
	}
	ch.mu.Unlock()
}

// setAlarm sets alarm to the time at which the next timer is due. If alarm is set to an
// earlier time, setAlarm does not change it. This saves a system call.
func (ch *channel) setAlarm() {
	if ch.timers.Len() == 0 && !ch.alarmSet {
		return
	}
	now := ch.now()
	expired := ch.alarmSet && now >= ch.alarmAt
	next, any := ch.timers.Next()
	switch {
	case any && expired && next <= now:
		// Another timer is due. alarm stays readable, so the application calls Next again.
	case any && (!ch.alarmSet || expired || next < ch.alarmAt):
		ch.alarmSet, ch.alarmAt = true, next
		_ = ch.alarm.Set(next - now)
	case expired:
		ch.alarmSet = false
		_ = ch.alarm.Stop()
	}
}

// watch makes the channel call h when the descriptor is readable or the peer has closed
// the connection.
func (ch *channel) watch(fd int, h fdevent.Handler) error {
	return ch.epoll.Add(fd, unix.EPOLLIN|unix.EPOLLRDHUP, h)
}

// isLocalAddr reports whether an address belongs to this host. Its errors are those of
// hostport.OnThisHost.
func (ch *channel) isLocalAddr(a netip.Addr) (bool, error) {
	return ch.localAddrs.Contains(a, ch.now())
}

// acceptsFrom reports whether a request from an address may come over the wire path. A
// device with both paths refuses such requests from this host, because processes of this
// host must use the local path; see package udp, far_only.go.
func (ch *channel) acceptsFrom(a netip.Addr) bool {
	if !ch.m.Local || !ch.m.Wire {
		return true
	}
	own, err := ch.isLocalAddr(a)
	return err == nil && !own
}
