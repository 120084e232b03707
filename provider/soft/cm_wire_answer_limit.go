//go:build linux

package soft

import (
	"hash/maphash"
	"net/netip"
	"time"
)

// An answerLimit bounds how many answers go to datagrams that belong to no connection
// and to no request here: refusals, and confirmations of the end of what is unknown.
// An answer is no longer than what it answers, so this host is no use for making a
// flood larger; but it could be made to pass one on, to whose address is forged.
//
// The memory is fixed: sources share the places, chosen by a hash that nobody outside
// can compute. Sources that happen to have the same place share its rate.
type answerLimit struct {
	seed    maphash.Seed
	start   time.Time // of the times in the rates; the first that was seen
	total   answerRate
	sources [answerPlaces]answerRate
}

// The figures are arbitrary. A host that asks many times for what is not there, such
// as a thousand clients of a server that has not started, gets its answers over some
// seconds. Linux sends a thousand ICMP errors in a second (icmp_msgs_per_sec).
const (
	answersPerSecond  = 2048 // in all, and as many at once
	answersPerAddress = 256  // in a second for each source, and as many at once
	answerPlaces      = 4096
)

// An answerRate allows so many events in a second, and as many at once after a second
// without any. Its value is the time, in nanoseconds from the limit's start, until
// which the rate has been used up. Source: the virtual scheduling algorithm of ITU-T
// I.371, annex A.
type answerRate int64

func newAnswerLimit() *answerLimit { return &answerLimit{seed: maphash.MakeSeed()} }

// allow reports whether another answer may go to a source at a time.
func (l *answerLimit) allow(to netip.Addr, at time.Time) bool {
	if l.start.IsZero() {
		l.start = at
	}
	now := int64(at.Sub(l.start)) // also when the clock of the system is set back
	own := &l.sources[hashSource(l.seed, to)%answerPlaces]
	if !own.allows(now, answersPerAddress) || !l.total.allows(now, answersPerSecond) {
		return false
	}
	own.use(now, answersPerAddress)
	l.total.use(now, answersPerSecond)
	return true
}

func (r *answerRate) allows(now, perSecond int64) bool {
	return int64(*r)-now <= int64(time.Second)-int64(time.Second)/perSecond
}

func (r *answerRate) use(now, perSecond int64) {
	*r = answerRate(max(int64(*r), now) + int64(time.Second)/perSecond)
}
