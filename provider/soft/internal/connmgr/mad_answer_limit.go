//go:build linux

package connmgr

import (
	"hash/maphash"
	"net/netip"
	"time"
)

// An answerLimit bounds how many answers are sent to datagrams that belong to no
// connection and no request of this device. Such answers are refusals, and
// confirmations of a disconnect of an unknown connection. An answer is no longer than
// its datagram, so this host can not amplify a flood. Without a limit, a flood with
// forged source addresses could be reflected to these addresses at its full rate.
//
// The memory is fixed: a keyed hash maps each source to one of the rates. Sources
// with the same hash share a rate.
type answerLimit struct {
	seed    maphash.Seed
	start   time.Time // origin of the times in the rates: the time of the first call of allow
	total   answerRate
	sources [answerBuckets]answerRate
}

// The numbers are arbitrary. A host may send many requests for which there is no
// listener, for example from a thousand clients before a server has started. The answers
// to that host are then spread over some seconds. Linux sends a thousand ICMP errors in
// a second (icmp_msgs_per_sec).
const (
	answersPerSecond  = 2048 // rate for all sources together, and largest burst
	answersPerAddress = 256  // rate for each source, and largest burst
	answerBuckets     = 4096
)

// An answerRate limits the number of answers in a second. A burst may have as many
// answers as a second. The value is the theoretical arrival time of the virtual
// scheduling algorithm (ITU-T I.371, annex A), in nanoseconds since answerLimit.start.
type answerRate int64

func newAnswerLimit() *answerLimit { return &answerLimit{seed: maphash.MakeSeed()} }

// allow reports whether an answer may be sent to a source at the given time. If it may
// be sent, allow counts it.
func (l *answerLimit) allow(to netip.Addr, at time.Time) bool {
	if l.start.IsZero() {
		l.start = at
	}
	// The time is monotonic, so that a change of the system clock has no effect.
	now := int64(at.Sub(l.start))
	own := &l.sources[hashSource(l.seed, to)%answerBuckets]
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
