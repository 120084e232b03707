//go:build linux

package access

import (
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

const (
	// freeAccessErrors is how many access errors a source may cause before it has to
	// wait. A correct program causes some too, if its peer has closed a region.
	// Arbitrary.
	freeAccessErrors = 8
	// minAccessWait is the first wait of a source. Each further wait is twice as long,
	// up to maxAccessWait. Arbitrary.
	minAccessWait = time.Second
	maxAccessWait = 10 * time.Minute
	// accessRecordTTL is the time for which a source is remembered after its last error
	// or wait. Arbitrary.
	accessRecordTTL = 10 * time.Minute
	// freeViolations is how many violations a source may cause at once, and
	// violationInterval is the time after which it may cause another one. A correct
	// program causes a few, for example if its messages are longer than those that the
	// peer receives. Both numbers are arbitrary.
	freeViolations    = 64
	violationInterval = time.Second / 8
	// maxViolationWait is the longest time for which violations make a source wait. A
	// source may have opened many connections before its first violation. Arbitrary.
	maxViolationWait = time.Minute
	// maxAccessSources is the largest number of remembered sources. They take less than
	// 1 MiB. Arbitrary.
	maxAccessSources = 4096
)

// A Source is a group of peers whose access errors are counted together. On the wire
// path it is a network. On the local path it is a user or a process.
type Source struct {
	// On the wire path: the IPv4 address of the peer, or its IPv6 /48 prefix.
	addr  netip.Addr
	local bool   // true on the local path
	uid   uint32 // user ID of the peer, set only on the local path
	// On the local path: the process ID if the user is root or the user of this process,
	// else 0.
	pid int32
}

// RemoteSource returns the source of a peer on the wire path: its IPv4 address or its
// IPv6 /48 prefix.
func RemoteSource(addr netip.Addr) Source { return Source{addr: siteOf(addr)} }

// LocalSource returns the source of a peer on the local path. Each process of root and
// of this process's user is a source of its own. All processes of any other user are one
// source.
func LocalSource(uid uint32, pid int32) Source {
	if uid != 0 && uid != uint32(os.Geteuid()) {
		pid = 0
	}
	return Source{local: true, uid: uid, pid: pid}
}

// An ErrorLimit slows down peers that guess remote keys, and peers that violate the
// protocol. A wrong key or a violation ends the peer's connection. After several wrong
// keys, the peer's source has to wait before it may connect again. A source whose
// violations are too frequent may not connect until fewer of them are counted: each costs
// this side the end of a connection and an event. Any goroutine may call the methods.
type ErrorLimit struct {
	// Clock returns the present time. A test may replace it before the first use.
	Clock  func() time.Time
	counts *counters.Set

	mu      sync.Mutex
	sources map[Source]*errorRecord
}

// errorRecord is the record of one source.
type errorRecord struct {
	// number of errors before the first wait; at most freeAccessErrors
	count   int
	wait    time.Duration // length of the last wait
	waitEnd time.Time     // end of the last wait
	// violations is the theoretical arrival time of the next violation (ITU-T I.371, annex
	// A). If it is later than now, the difference divided by violationInterval is the number
	// of counted violations.
	violations time.Time
	expires    time.Time // time when the source is forgotten
}

// NewErrorLimit returns an empty ErrorLimit. It counts refusals as AccessRefused in
// counts.
func NewErrorLimit(counts *counters.Set) *ErrorLimit {
	return &ErrorLimit{Clock: time.Now, counts: counts, sources: make(map[Source]*errorRecord)}
}

// CountError counts an access error that has ended a connection of s. An error during a
// wait does not make the wait longer.
func (a *ErrorLimit) CountError(s Source) {
	now := a.Clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.record(s, now)
	switch {
	case e.count < freeAccessErrors:
		e.count++
	case !now.Before(e.waitEnd):
		e.wait = min(max(2*e.wait, minAccessWait), maxAccessWait)
		e.waitEnd = now.Add(e.wait)
	}
	e.expires = later(e.waitEnd, now).Add(accessRecordTTL)
}

// CountViolation counts a violation of the protocol that has ended a connection of s.
func (a *ErrorLimit) CountViolation(s Source) {
	now := a.Clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.record(s, now)
	if latest := now.Add(maxViolationWait + (freeViolations-1)*violationInterval); e.violations.Before(latest) {
		e.violations = later(e.violations, now).Add(violationInterval)
	}
	e.expires = later(e.expires, e.violations)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// record returns the record for s. It makes one if there is none, or an expired one.
func (a *ErrorLimit) record(s Source, now time.Time) *errorRecord {
	e := a.sources[s]
	if e == nil || !now.Before(e.expires) {
		e = a.addRecord(s, now)
	}
	return e
}

// addRecord adds a record for s. If there is no room, it first removes all expired
// records, or else the record that expires first.
func (a *ErrorLimit) addRecord(s Source, now time.Time) *errorRecord {
	if len(a.sources) >= maxAccessSources {
		var oldest Source
		first := time.Time{}
		for other, e := range a.sources {
			if !now.Before(e.expires) {
				delete(a.sources, other)
			} else if first.IsZero() || e.expires.Before(first) {
				oldest, first = other, e.expires
			}
		}
		if len(a.sources) >= maxAccessSources {
			delete(a.sources, oldest)
		}
	}
	e := &errorRecord{}
	a.sources[s] = e
	return e
}

// Refuses reports whether a connection of s must be refused, because s still has to wait
// or its violations are too frequent. It counts the refusal.
func (a *ErrorLimit) Refuses(s Source) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, now := a.sources[s], a.Clock()
	if e == nil || !now.Before(e.waitEnd) && e.violations.Sub(now) <= (freeViolations-1)*violationInterval {
		return false
	}
	a.counts.Inc(counters.AccessRefused)
	return true
}

// A Rate limits events per second. Its value is the theoretical arrival time of the next
// event (ITU-T I.371, annex A), in nanoseconds since a time that the user chooses. As many
// events as in a second may come in a burst.
type Rate int64

// Allows reports whether an event may happen at the time now.
func (r *Rate) Allows(now, perSecond int64) bool {
	return int64(*r)-now <= int64(time.Second)-int64(time.Second)/perSecond
}

// Use counts an event.
func (r *Rate) Use(now, perSecond int64) {
	*r = Rate(max(int64(*r), now) + int64(time.Second)/perSecond)
}
