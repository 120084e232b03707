//go:build linux

package connmgr

import (
	"hash/maphash"
	"net/netip"
	"time"
)

// An answerLimit bounds how many answers are sent to datagrams that belong to no
// connection and no request of this device. The answers are REJs, SIDR_REPs and DREPs.
// An answer is no longer than the datagram that it answers, so this host can not amplify
// a flood. But without a limit, this host would send an answer to each forged source
// address of a flood, at the rate of the flood.
//
// The memory is fixed: a keyed hash assigns each source to one of the rates in the field
// sources. Sources with the same hash share a rate.
type answerLimit struct {
	seed    maphash.Seed
	start   time.Time // origin of the times in the rates: the time of the first call of allow
	total   answerRate
	sources [answerBuckets]answerRate
}

// Limits of the numbers of answers. All three numbers are arbitrary. A host may send
// many requests for which there is no listener: for example, a thousand clients may
// start before their server. The answers to that host are then spread over some seconds.
// For comparison, Linux sends at most a thousand ICMP errors in a second
// (icmp_msgs_per_sec).
const (
	// answersPerSecond is the largest number of answers in a second to all sources
	// together. One burst may have the same number of answers.
	answersPerSecond = 2048
	// answersPerAddress limits the answers to one source, which is an address or an IPv6
	// prefix: to this number in a second on average, and to the same number at once.
	answersPerAddress = 256
	// answerBuckets is the number of rates that the sources share.
	answerBuckets = 4096
)

// An answerRate limits the number of answers in a second. All answers of one second may
// be sent in one burst. The algorithm is the virtual scheduling algorithm of ITU-T
// I.371, annex A. The value of an answerRate is the theoretical arrival time of that
// algorithm, in nanoseconds since answerLimit.start.
type answerRate int64

func newAnswerLimit() *answerLimit { return &answerLimit{seed: maphash.MakeSeed()} }

// allow reports whether an answer may be sent to a source now. The parameter at is the
// present time. If the answer may be sent, allow counts it.
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
