package reactor

import "time"

// maxEpollInterval is the longest time between two checks of epoll in a loop that does
// not sleep, even if Config.EpollEvery turns take longer. Arbitrary.
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
