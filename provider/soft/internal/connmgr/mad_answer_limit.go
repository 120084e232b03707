//go:build linux

package connmgr

import (
	"hash/maphash"
	"net/netip"
	"time"
)

// An answerLimit limits how many answers are sent to unknown peers: REJs, SIDR_REPs and
// DREPs. Without a limit, forged datagrams could make this host send many answers to
// another host.
//
// The sources share a fixed number of rates. A keyed hash of a source selects its rate.
type answerLimit struct {
	seed    maphash.Seed
	start   time.Time // time of the first call of allow(), from which the times in the rates count
	total   answerRate
	sources [answerBuckets]answerRate
}

// Limits of the answers, all arbitrary.
const (
	// answersPerSecond is the largest number of answers in a second. All of them may be
	// sent at once.
	answersPerSecond = 2048
	// answersPerAddress is the largest number for one source. A source is an address or
	// an IPv6 prefix.
	answersPerAddress = 256
	// answerBuckets is the number of rates.
	answerBuckets = 4096
)

// An answerRate limits the answers per second. Its value is the theoretical arrival time
// of the next answer (ITU-T I.371, annex A), in nanoseconds since answerLimit.start.
type answerRate int64

func newAnswerLimit() *answerLimit { return &answerLimit{seed: maphash.MakeSeed()} }

// allow reports whether an answer may be sent to a source at the given time, and counts
// the answer.
func (l *answerLimit) allow(to netip.Addr, at time.Time) bool {
	if l.start.IsZero() {
		l.start = at
	}
	// This difference is monotonic, so a change of the system clock has no effect.
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
