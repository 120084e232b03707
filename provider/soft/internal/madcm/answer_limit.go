//go:build linux

package madcm

import (
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
)

// An answerLimit limits the rate of the REJs, SIDR_REPs and DREPs that are sent to
// unknown peers. Without it, forged datagrams could make this host send many answers to
// another host.
//
// Sources share a fixed number of rates. A keyed hash of the source selects its
// rate.
type answerLimit struct {
	seed maphash.Seed
	// time of the first call of allow(); zero of the times in the rates
	start   time.Time
	total   access.Rate
	sources [answerBuckets]access.Rate
}

// Limits of the rates. All numbers are arbitrary.
const (
	// answersPerSecond is the largest number of answers in one second to all sources
	// together. It is also the largest number of answers in a burst.
	answersPerSecond = 2048
	// answersPerAddress is the largest number of answers in one second to one source. A
	// source is an IPv4 address or an IPv6 prefix.
	answersPerAddress = 256
	// answerBuckets is the number of elements in answerLimit.sources. Sources with the
	// same hash share an element.
	answerBuckets = 4096
)

func newAnswerLimit() *answerLimit { return &answerLimit{seed: maphash.MakeSeed()} }

// exhausted reports whether allow would return false.
func (l *answerLimit) exhausted(to netip.Addr, at time.Time) bool {
	now := int64(at.Sub(l.start))
	own := &l.sources[hashSource(l.seed, to)%answerBuckets]
	return !l.start.IsZero() && !(own.Allows(now, answersPerAddress) && l.total.Allows(now, answersPerSecond))
}

// allow reports whether an answer may be sent to an address at the given time. If so, it
// counts the answer.
func (l *answerLimit) allow(to netip.Addr, at time.Time) bool {
	if l.start.IsZero() {
		l.start = at
	}
	// The difference of the two times is monotonic, so changes of the system clock do not
	// affect it.
	now := int64(at.Sub(l.start))
	own := &l.sources[hashSource(l.seed, to)%answerBuckets]
	if !own.Allows(now, answersPerAddress) || !l.total.Allows(now, answersPerSecond) {
		return false
	}
	own.Use(now, answersPerAddress)
	l.total.Use(now, answersPerSecond)
	return true
}
