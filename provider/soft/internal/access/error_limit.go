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
	// freeAccessErrors is the number of connections of a source that may end with an
	// access error before the source has to wait; arbitrary. A correct program causes a
	// few such errors when its peer has closed a region that the program still uses.
	freeAccessErrors = 8
	// minAccessWait is the first wait of a source. Each further wait is twice the last
	// one, up to maxAccessWait. Both numbers are arbitrary.
	minAccessWait = time.Second
	maxAccessWait = 10 * time.Minute
	// accessRecordTTL is the time after which the record of a source expires, counted
	// from the last error of the source or from the end of its last wait, whichever is
	// later.
	accessRecordTTL = 10 * time.Minute
	// maxAccessSources is the largest number of records; arbitrary. That many records
	// take less than 1 MiB. When a further record is needed, it replaces the record that
	// would expire first. So a peer that controls more sources than this number can
	// avoid the wait.
	maxAccessSources = 4096
)

// A Source is the unit by which access errors are counted: a network, a user or a
// process.
type Source struct {
	// source on the wire path: the IPv4 address, or the /48 prefix of the IPv6 address
	addr netip.Addr
	uid  uint32 // user ID of a source on the local path
	// process ID of a source on the local path if its user is root or the user of this
	// process; else 0
	pid int32
}

// RemoteSource returns the source of a connection on the wire path; see siteOf.
func RemoteSource(addr netip.Addr) Source { return Source{addr: siteOf(addr)} }

// LocalSource returns the source of a connection on the local path. Root and the user of
// this process may trace this process (ptrace(2)), so they gain nothing by guessing
// keys. So each process of root and of this user is a source of its own.
func LocalSource(uid uint32, pid int32) Source {
	if uid != 0 && uid != uint32(os.Geteuid()) {
		pid = 0
	}
	return Source{uid: uid, pid: pid}
}

// An ErrorLimit slows down the guessing of remote keys. A wrong key ends the
// connection. A source with several connections that ended this way has to wait before
// it may connect again. Its open connections stay open.
//
// The methods may be called from any goroutine.
type ErrorLimit struct {
	// Clock returns the present time. A test may replace it before the first use.
	Clock  func() time.Time
	counts *counters.Set

	mu      sync.Mutex
	sources map[Source]*errorRecord
}

// errorRecord is the record of one source.
type errorRecord struct {
	// number of errors in this record that caused no wait; at most freeAccessErrors
	count   int
	wait    time.Duration // length of the last wait
	waitEnd time.Time     // time at which the most recent wait ends
	expires time.Time     // time at which the record expires
}

// NewErrorLimit returns an ErrorLimit without records. It counts the requests that it
// refuses in the Set counts.
func NewErrorLimit(counts *counters.Set) *ErrorLimit {
	return &ErrorLimit{Clock: time.Now, counts: counts, sources: make(map[Source]*errorRecord)}
}

// CountError counts a connection that an access error has ended. An error during a
// wait does not make the wait longer, because its connection was open before the wait.
func (a *ErrorLimit) CountError(s Source) {
	now := a.Clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.sources[s]
	if e == nil || !now.Before(e.expires) {
		e = a.addRecord(s, now)
	}
	switch {
	case e.count < freeAccessErrors:
		e.count++
	case !now.Before(e.waitEnd):
		e.wait = min(max(2*e.wait, minAccessWait), maxAccessWait)
		e.waitEnd = now.Add(e.wait)
	}
	e.expires = now.Add(accessRecordTTL)
	if e.waitEnd.After(now) {
		e.expires = e.waitEnd.Add(accessRecordTTL)
	}
}

// addRecord adds a record. If there are maxAccessSources records already, the new one
// replaces the record that would expire first.
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

// Refuses reports whether a connection request has to be refused because its source
// has to wait. It counts the refusal.
func (a *ErrorLimit) Refuses(s Source) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.sources[s]
	if e == nil || !a.Clock().Before(e.waitEnd) {
		return false
	}
	a.counts.Inc(counters.AccessRefused)
	return true
}
