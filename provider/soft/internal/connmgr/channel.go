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

// A Channel implements cm.TransportChannel. Its method Next reads the sockets and runs
// the timers of the channel's IDs.
//
// The lock of a channel guards its IDs. To lock two channels, a goroutine locks the
// channel with the lower epoll descriptor first. A goroutine that holds the lock may call
// the Engine.
type Channel struct {
	m *Manager
	// epoll watches the sockets, alarm and the event of the waker.
	epoll *fdevent.Dispatcher
	alarm *fdevent.Timer // readable when a timer is due
	clock func() time.Time
	waker waker

	mu       sync.Mutex
	closed   bool
	queue    eventQueue
	timers   timerheap.Heap
	alarmSet bool // true if alarm is set to expire at alarmAt
	alarmAt  time.Duration
	// Argument of QueuePair.Modify. It is a field, because a local variable would be
	// allocated on the heap.
	attr       verbs.QPAttr
	localAddrs hostport.LocalAddrCache
	worker     Worker // part of the wire path; nil on a device without it
}

func openChannel(m *Manager) (*Channel, error) {
	if err := m.Engine.AddChannel(); err != nil {
		return nil, err
	}
	ch := &Channel{m: m, clock: time.Now, localAddrs: hostport.LocalAddrCache{Host: m.Host}}
	if err := ch.open(); err != nil {
		_ = ch.Close()
		return nil, err
	}
	if m.Wire != nil {
		ch.worker = m.Wire.Serve(ch)
	}
	return ch, nil
}

func (ch *Channel) open() (err error) {
	if ch.epoll, err = fdevent.NewDispatcher(); err != nil {
		return err
	}
	if ch.waker.event, err = fdevent.NewEvent(); err != nil {
		return err
	}
	if ch.alarm, err = fdevent.NewTimer(ch.m.Sim); err != nil {
		return err
	}
	if err = ch.epoll.Attach(ch.waker.event.FD(), unix.EPOLLIN); err != nil {
		return err
	}
	return ch.epoll.Attach(ch.alarm.FD(), unix.EPOLLIN)
}

// FD implements cm.TransportChannel. It returns an epoll descriptor.
func (ch *Channel) FD() int { return ch.epoll.FD() }

// Close implements cm.TransportChannel. It closes the descriptors and releases the
// orphans. A second call does nothing.
func (ch *Channel) Close() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return nil
	}
	if ch.worker != nil {
		ch.worker.Close()
	}
	ch.closed = true
	ch.waker.close()
	ch.epoll.Close()
	_, _ = ch.waker.event.Close(), ch.alarm.Close()
	ch.m.Engine.RemoveChannel()
	return nil
}

// NewID implements cm.TransportChannel.
func (ch *Channel) NewID(ps cm.PortSpace) (cm.TransportID, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return nil, verbs.ErrClosed
	}
	return newID(ch, ps), nil
}

// Next implements cm.TransportChannel. It calls drive() only when no event is queued.
func (ch *Channel) Next(ev *cm.TransportEvent) (bool, error) {
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
		ev.ID.(*ID).requestFetched()
	}
	return true, nil
}

// drive handles each readable descriptor once, does the work of the worker, and runs the
// timers that are due. The caller holds the channel's lock.
func (ch *Channel) drive() error {
	ch.waker.begin()
	if _, err := ch.epoll.Dispatch(0); err != nil {
		return err
	}
	if ch.waker.takeWork() && ch.worker.Work() {
		ch.waker.wake()
	}
	ch.expire()
	return nil
}

// expire runs the timers that are due at the present time.
func (ch *Channel) expire() {
	if ch.timers.Len() > 0 {
		ch.timers.Expire(ch.Now())
	}
}

// Now returns the time since Config.Start. The timers of all channels use this clock.
func (ch *Channel) Now() time.Duration { return ch.sinceStart(ch.clock()) }

func (ch *Channel) sinceStart(t time.Time) time.Duration { return t.Sub(ch.m.Start) }

// StartTimer starts a timer that expires after the given time.
func (ch *Channel) StartTimer(t *timerheap.Timer, after time.Duration) {
	ch.timers.Set(t, ch.Now()+after)
}

// StopTimer stops a timer. It may be stopped already.
func (ch *Channel) StopTimer(t *timerheap.Timer) { ch.timers.Stop(t) }

// MoveTimer moves a timer to another channel. It stays stopped or keeps its time.
func (ch *Channel) MoveTimer(t *timerheap.Timer, to *Channel) { ch.timers.Move(t, &to.timers) }

// Wake makes the channel readable, so that it calls Worker.Work. Any goroutine may call it.
func (ch *Channel) Wake() { ch.waker.wake() }

// unlock updates alarm and the event of the waker, and then unlocks the channel. The event
// stays readable while events or work are queued.
func (ch *Channel) unlock() {
	if !ch.closed {
		ch.waker.end(!ch.queue.empty())
		ch.setAlarm()
	}
	ch.mu.Unlock()
}

// setAlarm sets alarm to the time at which the next timer is due. If alarm is set to an
// earlier time, setAlarm does not change it. This saves a system call.
func (ch *Channel) setAlarm() {
	if ch.timers.Len() == 0 && !ch.alarmSet {
		return
	}
	now := ch.Now()
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

// Watch makes the channel call h when the descriptor is readable or the peer has closed
// the connection.
func (ch *Channel) Watch(fd int, h fdevent.Handler) error {
	return ch.epoll.Add(fd, unix.EPOLLIN|unix.EPOLLRDHUP, h)
}

// WatchErrors makes the channel call h when an error is queued at the descriptor, which
// epoll always reports (epoll_ctl(2)).
func (ch *Channel) WatchErrors(fd int, h fdevent.Handler) error { return ch.epoll.Add(fd, 0, h) }

// Unwatch undoes Watch and WatchErrors. It does nothing if the channel does not watch the
// descriptor.
func (ch *Channel) Unwatch(fd int) { ch.epoll.Remove(fd) }

// Watches reports whether the channel watches the descriptor.
func (ch *Channel) Watches(fd int) bool { return ch.epoll.Handler(fd) != nil }

// ReplaceHandler makes the channel call h for a descriptor that it watches already.
func (ch *Channel) ReplaceHandler(fd int, h fdevent.Handler) { ch.epoll.SetHandler(fd, h) }

// IsLocalAddr reports whether an address belongs to this host. Its errors are those of
// hostport.Host.OnThisHost.
func (ch *Channel) IsLocalAddr(a netip.Addr) (bool, error) {
	return ch.localAddrs.Contains(a, ch.Now())
}

// wakerState says whether a channel is readable because of its waker, and whether it is
// being driven.
type wakerState uint8

const (
	// wakerQuiet: neither events nor work are queued, and the event of the waker is not
	// readable. A waker begins in this state. Work leads to wakerReadable, and begin to
	// wakerDriven.
	wakerQuiet wakerState = iota
	// wakerReadable: events or work are queued, and the event is readable. begin leads to
	// wakerDrivenReadable. end leads to wakerQuiet if nothing is queued any more.
	wakerReadable
	// wakerDriven: the channel is being driven, and the event is not readable. Work does not
	// change that, which saves system calls. end leads to wakerReadable if events or work are
	// queued, and else to wakerQuiet.
	wakerDriven
	// wakerDrivenReadable: as wakerDriven, but the event is still readable.
	wakerDrivenReadable
	// wakerClosed: the channel is closed, and its event is left alone. No method leads to
	// another state.
	wakerClosed
)

// A waker makes a channel readable while events or work are queued. Any goroutine may
// queue work.
type waker struct {
	event *fdevent.Event // watched by the epoll descriptor of the channel

	mu    sync.Mutex
	state wakerState
	work  bool // true if work is queued
}

// wake records that work is queued.
func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.work = true
	if w.state == wakerQuiet {
		w.state = wakerReadable
		w.event.Signal()
	}
}

// begin is called before the channel is driven.
func (w *waker) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.state {
	case wakerQuiet:
		w.state = wakerDriven
	case wakerReadable:
		w.state = wakerDrivenReadable
	}
}

// takeWork reports whether work is queued, which the caller then does.
func (w *waker) takeWork() (queued bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	queued, w.work = w.work, false
	return queued
}

// end is called when the channel is unlocked, driven or not. The parameter events says
// whether events are queued.
func (w *waker) end(events bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	queued := events || w.work
	switch {
	case w.state == wakerClosed:
	case queued:
		if w.state == wakerQuiet || w.state == wakerDriven {
			w.event.Signal()
		}
		w.state = wakerReadable
	default:
		if w.state == wakerReadable || w.state == wakerDrivenReadable {
			w.event.Drain()
		}
		w.state = wakerQuiet
	}
}

// close makes the waker leave the event alone.
func (w *waker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = wakerClosed
}

// An eventQueue has the events of a channel that the application has not fetched yet, the
// oldest first.
type eventQueue struct {
	events []cm.TransportEvent
	head   int
	// number of events in the queue, without those of destroyed IDs
	pending int
}

func (q *eventQueue) empty() bool { return q.pending == 0 }

func (q *eventQueue) push(ev cm.TransportEvent) {
	q.events = append(q.events, ev)
	q.count(&ev, 1)
}

// count adds n to the numbers of events of the queue, of the event's ID and of its
// listener. The parameter n is 1 or -1.
func (q *eventQueue) count(ev *cm.TransportEvent, n int) {
	q.pending += n
	ev.ID.(*ID).queued += n
	if l, ok := ev.Listener.(*ID); ok {
		l.queued += n
	}
}

// pop removes the oldest event and stores it in ev. It skips the events of destroyed IDs.
// It returns false if the queue has no event.
func (q *eventQueue) pop(ev *cm.TransportEvent) bool {
	for !q.empty() {
		*ev = q.events[q.head]
		q.events[q.head] = cm.TransportEvent{}
		q.head++
		if !ev.ID.(*ID).dropped {
			q.count(ev, -1)
			q.resetIfEmpty()
			return true
		}
	}
	return false
}

// resetIfEmpty clears the queue if all its events belong to destroyed IDs.
func (q *eventQueue) resetIfEmpty() {
	if q.empty() {
		clear(q.events[q.head:])
		q.events, q.head = q.events[:0], 0
	}
}

// extract removes the events of an ID from the queue and returns them. For a listening
// ID, the result includes the events of its requests.
func (q *eventQueue) extract(of *ID) []cm.TransportEvent {
	if of.queued == 0 {
		return nil
	}
	var taken []cm.TransportEvent
	kept := q.events[:0]
	for _, ev := range q.events[q.head:] {
		if ev.ID == of || ev.Listener == of {
			taken = append(taken, ev)
			q.count(&ev, -1)
		} else {
			kept = append(kept, ev)
		}
	}
	clear(q.events[len(kept):])
	q.events, q.head = kept, 0
	return taken
}

// drop marks an ID as destroyed, so that pop() skips its events. A listening ID must have
// no requests in the queue.
func (q *eventQueue) drop(of *ID) {
	q.pending -= of.queued
	of.queued, of.dropped = 0, true
	q.resetIfEmpty()
}
