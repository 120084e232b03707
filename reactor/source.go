package reactor

import (
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/poller"
)

// expectedEpollEvery is the largest number of turns between two checks of epoll while
// events are expected. With 8, connections on the wire path took 1.3 times as long to
// open.
const expectedEpollEvery = 4

// A source handles the events of a descriptor of the loop's poller.
type source interface {
	// ready handles a limited number of events of its ready descriptor, and returns how
	// many count as work (see IdlePolicy). While events are left, the descriptor stays
	// ready.
	ready(poller.Readiness) (work int)
	// wakeCause returns the wakeCause to count when the descriptor has ended a sleep.
	wakeCause() wakeCause
}

// A sourceSlot is an element of Loop.sources.
type sourceSlot struct {
	source source // source of the events; nil if this element is free
	token  poller.Token
}

// watch adds a descriptor to the poller. The source s handles the events of the
// descriptor.
func (l *Loop) watch(fd int, interest poller.Interest, s source) (poller.Token, error) {
	index := 0
	for index < len(l.sources) && l.sources[index].source != nil {
		index++
	}
	token, err := l.poller.Add(fd, interest, uint64(index))
	if err != nil {
		return 0, err
	}
	if index == len(l.sources) {
		l.sources = append(l.sources, sourceSlot{})
	}
	l.sources[index] = sourceSlot{source: s, token: token}
	return token, nil
}

// unwatch removes the descriptor of s. Its events that were fetched already are not
// returned by poller.Poller.Event any more. A second call does nothing.
func (l *Loop) unwatch(s source) error {
	for i, w := range l.sources {
		if w.source == s {
			l.sources[i] = sourceSlot{}
			return l.poller.Remove(w.token)
		}
	}
	return nil
}

// pollEpoll handles the events that ended the last sleep. If there are none, it fetches
// new events when epollSchedule.due returns true.
func (l *Loop) pollEpoll() (work int) {
	n := l.epoll.fetched
	if n == 0 {
		if !l.epoll.due(l.clock.now) {
			return 0
		}
		n = l.fetchEvents().events
	}
	l.epoll.checked(l.clock.now, l.epollInterval())
	for i := range n {
		if ev, ok := l.poller.Event(i); ok {
			s := l.sources[ev.Data].source
			found := s.ready(ev.Ready)
			if found > 0 && s.wakeCause() == wakeByConnection {
				l.epoll.expectMore(l.clock.now)
			}
			work += found
		}
	}
	if work > 0 {
		l.epoll.checkSoon()
	}
	return work
}

// expectsEvents reports whether another connection event is expected soon. Events are
// expected while a connection opens, and for eventGap after each connection event.
func (l *Loop) expectsEvents() bool {
	return l.openingConns > 0 || l.epoll.expects(l.clock.now)
}

// pollsPerTurn returns how often a turn of the loop polls the completion queues if it
// finds no completion. While the loop expects events of epoll, the result is 1, because
// polls delay these events.
func (l *Loop) pollsPerTurn() int {
	if l.expectsEvents() {
		return 1
	}
	return l.idle.pollsPerTurn()
}

// epollInterval returns after how many turns a loop that does not sleep checks epoll.
func (l *Loop) epollInterval() int {
	if l.expectsEvents() {
		return min(l.cfg.Limits.EpollEvery, expectedEpollEvery)
	}
	return l.cfg.Limits.EpollEvery
}

// fetchEvents fetches the present events of epoll without waiting.
func (l *Loop) fetchEvents() wakeup {
	l.stats.EpollChecks++
	return l.wait(0)
}

// A wakeup says what has ended a call of Loop.wait.
type wakeup struct {
	events      int  // number of events that poller.Poller.Event can return
	completions bool // true if Loop.sleeper may have completions
	posted      bool // true if Loop.wake was called
}

// wait waits for an event until the timeout has passed.
func (l *Loop) wait(timeout time.Duration) (w wakeup) {
	if l.engine.sim != nil && timeout != 0 {
		return l.waitSimulated(timeout)
	}
	if l.sleeper != nil {
		input := false
		if w.completions, input = l.sleeper.sleep(timeout); !input {
			return w
		}
		timeout = 0
	}
	n, err := l.poller.Wait(timeout)
	l.recordError(err)
	w.events, w.posted = n, l.poller.Woken()
	return w
}

// waitSimulated is wait on a simulated host, where no system call blocks.
func (l *Loop) waitSimulated(timeout time.Duration) wakeup {
	fd := l.poller.FD()
	if l.sleeper != nil {
		fd = l.sleeper.group.FD()
	}
	if w := l.wait(0); w.events > 0 || w.completions || w.posted {
		return w
	}
	l.engine.sim.Sleep(fd, timeout)
	return l.wait(0)
}

// maxEpollInterval is the longest time between two checks of epoll in a loop that does
// not sleep, even if Config.Limits.EpollEvery turns take longer. Arbitrary.
const maxEpollInterval = 200 * time.Microsecond

// eventGap is how long a loop expects another event after a connection event. The events
// of one connection, and the requests of a peer that opens many connections, usually
// follow each other within this time. Arbitrary.
const eventGap = time.Millisecond

// An epollSchedule decides in which turns a loop that does not sleep checks epoll.
type epollSchedule struct {
	expectedUntil time.Duration // time until which another event is expected, by the loop's clock

	turns    int           // number of turns since the last check
	interval int           // number of turns after which the loop checks epoll
	last     time.Duration // time of the last check, by the loop's clock
	// Number of events that were fetched at the end of a sleep and are not handled yet.
	fetched int
}

// checkSoon makes the next turn check epoll.
func (s *epollSchedule) checkSoon() { s.interval = 1 }

// due counts a turn, and reports whether this turn must check epoll.
func (s *epollSchedule) due(now time.Duration) bool {
	s.turns++
	return s.turns >= s.interval || now-s.last >= maxEpollInterval
}

// checked records a check of epoll. The next check follows after the given number of
// turns.
func (s *epollSchedule) checked(now time.Duration, interval int) {
	*s = epollSchedule{expectedUntil: s.expectedUntil, interval: interval, last: now}
}

// expectMore is called when a check of epoll has found a connection event. For the time
// eventGap, another event is expected.
func (s *epollSchedule) expectMore(now time.Duration) { s.expectedUntil = later(now, eventGap) }

// expects reports whether an event is expected soon after the last connection event.
func (s *epollSchedule) expects(now time.Duration) bool { return now < s.expectedUntil }

// A watched is a descriptor of the application that a loop watches: see Loop.Watch.
type watched struct {
	loop *Loop
	fd   int
	call func(poller.Readiness)
}

func (w *watched) wakeCause() wakeCause { return wakeByWatch }

func (w *watched) ready(r poller.Readiness) (work int) {
	w.loop.functionStart("Watch")
	w.call(r)
	w.loop.callbackEnd()
	return 1
}

// Watch makes the loop watch a descriptor. While fd is in one of the given states, the loop
// calls fn in its turns (level-triggered, see epoll(7)). A further call with the same fd
// replaces the interest and the function. Only the goroutine of the loop may call Watch. The
// errors are those of poller.Poller.Add and Modify.
//
// The application owns fd, and closes it after Unwatch.
func (l *Loop) Watch(fd int, interest poller.Interest, fn func(poller.Readiness)) error {
	const op = "watch descriptor"
	l.owner.check()
	if at := l.findWatched(fd); at >= 0 {
		if err := l.poller.Modify(l.sources[at].token, interest); err != nil {
			return operr.Wrap(op, err)
		}
		l.sources[at].source.(*watched).call = fn
		return nil
	}
	_, err := l.watch(fd, interest, &watched{l, fd, fn})
	return operr.Wrap(op, err)
}

// Unwatch ends Watch: the loop does not call the function again. If the loop does not watch fd,
// it does nothing. Only the goroutine of the loop may call Unwatch.
func (l *Loop) Unwatch(fd int) error {
	l.owner.check()
	at := l.findWatched(fd)
	if at < 0 {
		return nil
	}
	return operr.Wrap("unwatch descriptor", l.unwatch(l.sources[at].source))
}

// findWatched returns the index of a descriptor of the application in Loop.sources, or -1.
func (l *Loop) findWatched(fd int) int {
	return slices.IndexFunc(l.sources, func(s sourceSlot) bool {
		w, ok := s.source.(*watched)
		return ok && w.fd == fd
	})
}
