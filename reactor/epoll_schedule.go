package reactor

import "time"

// maxEpollInterval is the longest time between two checks of epoll in a loop that does
// not sleep, even if Config.EpollEvery turns take longer. Arbitrary.
const maxEpollInterval = 200 * time.Microsecond

// An epollSchedule decides in which turns a loop that does not sleep checks epoll.
type epollSchedule struct {
	turns    int           // number of turns since the last check
	interval int           // number of turns after which the loop checks epoll
	last     time.Duration // time of the last check, in the loop's time
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
	*s = epollSchedule{interval: interval, last: now}
}
