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
	// access error before the source has to wait. It is arbitrary. A correct program
	// causes a few such errors when its peer has closed a region that the program still
	// uses.
	freeAccessErrors = 8
	// minAccessWait is the length of the first wait of a source. Each further wait is
	// twice as long as the one before it, up to maxAccessWait. Both numbers are
	// arbitrary.
	minAccessWait = time.Second
	maxAccessWait = 10 * time.Minute
	// accessRecordTTL is how long a record is kept. The time begins at the last error of
	// the source or at the end of its last wait, whichever is later. The number is
	// arbitrary.
	accessRecordTTL = 10 * time.Minute
	// maxAccessSources is the largest number of records. The number is arbitrary: 4096
	// records take less than 1 MiB. If the table is full, a new record replaces the
	// record that would expire first. A peer that controls more than maxAccessSources
	// sources can therefore avoid the wait. A larger table would only raise that number.
	maxAccessSources = 4096
)

// A Source identifies a group of peers whose access errors are counted together. On the
// wire path the peers are in one network. On the local path they are the processes of one
// user, or a single process.
type Source struct {
	// addr is set only on the wire path: the IPv4 address of the peer, or the /48 prefix
	// of its IPv6 address.
	addr netip.Addr
	uid  uint32 // user ID of the peer, set only on the local path
	// pid is set only on the local path: the process ID of the peer if its user is root
	// or the user of this process. For other users it is 0.
	pid int32
}

// RemoteSource returns the source of a connection on the wire path: the IPv4 address, or
// the /48 prefix of an IPv6 address. See siteOf for the reason.
func RemoteSource(addr netip.Addr) Source { return Source{addr: siteOf(addr)} }

// LocalSource returns the source of a connection on the local path. All processes of one
// user are a single source, with two exceptions: for root and for the user of this
// process, each process is a source of its own. An error of one such process then does
// not make the other processes of its user wait. This is safe, because these two users
// gain nothing by guessing keys: they may trace this process anyway (ptrace(2)).
func LocalSource(uid uint32, pid int32) Source {
	if uid != 0 && uid != uint32(os.Geteuid()) {
		pid = 0
	}
	return Source{uid: uid, pid: pid}
}

// An ErrorLimit makes it slow to guess remote keys. A wrong key ends the connection.
// After several such connections, their source has to wait before it may connect again.
// Its open connections stay open.
type ErrorLimit struct {
	// Clock returns the present time. A test may replace it before the first use.
	Clock  func() time.Time
	counts *counters.Set

	mu      sync.Mutex
	sources map[Source]*errorRecord
}

// errorRecord is the record of one source.
type errorRecord struct {
	// number of errors that were counted before the first wait; at most freeAccessErrors
	count   int
	wait    time.Duration // length of the wait that began last
	waitEnd time.Time     // end of the wait that began last
	expires time.Time     // time at which the record expires
}

// NewErrorLimit returns an ErrorLimit without records. The ErrorLimit adds its refusals
// to the counter AccessRefused of the parameter counts.
func NewErrorLimit(counts *counters.Set) *ErrorLimit {
	return &ErrorLimit{Clock: time.Now, counts: counts, sources: make(map[Source]*errorRecord)}
}

// CountError counts an access error that has ended a connection of the source s. If the
// source has to wait at the time of the error, the wait does not become longer, because
// the connection was opened before the wait began.
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

// Refuses reports whether a connection request of a source is to be refused, because the
// source has to wait. It counts each refusal.
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
