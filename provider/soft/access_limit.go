//go:build linux

package soft

import (
	"net/netip"
	"os"
	"sync"
	"time"
)

const (
	// freeAccessErrors is how many connections of a source may end with an access error
	// before the source has to wait; arbitrary. A well-meaning program makes some such
	// errors when its peer has closed a region that the program still uses.
	freeAccessErrors = 8
	// minAccessWait is the first wait of a source. Each further wait is twice as long
	// as the one before, up to maxAccessWait. Both are arbitrary.
	minAccessWait = time.Second
	maxAccessWait = 10 * time.Minute
	// accessRecordTTL is how long the errors of a source are remembered after its last
	// error, or after the end of its last wait.
	accessRecordTTL = 10 * time.Minute
	// maxAccessSources is how many sources are remembered; arbitrary. Their records take
	// less than 1 MiB. A further source replaces the one whose record would expire first.
	// So a peer that has more sources than this does not have to wait.
	maxAccessSources = 4096
)

// An accessSource is the sender to which the access errors of a connection are
// counted.
type accessSource struct {
	addr netip.Addr // wire path: the IPv4 address, or the /48 prefix of the IPv6 address
	uid  uint32     // the user of a local source
	// local path: the process, if its user is root or the user of this process
	pid int32
}

// remoteSource returns the source of a connection on the wire path; see siteOf.
func remoteSource(addr netip.Addr) accessSource { return accessSource{addr: siteOf(addr)} }

// localSource returns the source of a connection on the local path. Root and the user
// of this process may trace this process (ptrace(2)), so they gain nothing by
// guessing keys. For these users each process is a source of its own.
func localSource(uid uint32, pid int32) accessSource {
	if uid != 0 && uid != uint32(os.Geteuid()) {
		pid = 0
	}
	return accessSource{uid: uid, pid: pid}
}

// An accessLimit slows down the guessing of remote keys. A wrong key ends the
// connection. A source with several connections that ended this way has to wait
// before it may connect again; its open connections stay open. The methods may be
// called from any goroutine. The zero value with counts set is ready.
type accessLimit struct {
	clock  func() time.Time // clock replaces time.Now in tests; may be nil
	counts *counters

	mu      sync.Mutex
	sources map[accessSource]*accessErrors
}

// accessErrors is the record of one source.
type accessErrors struct {
	count   int           // number of errors that caused no wait, up to freeAccessErrors
	wait    time.Duration // length of the last wait
	waitEnd time.Time     // end of the last wait
	expires time.Time     // time at which the record expires
}

func (a *accessLimit) now() time.Time {
	if a.clock != nil {
		return a.clock()
	}
	return time.Now()
}

// failed counts a connection that an access error has ended. Errors during a wait do
// not make the wait longer, because their connections were open before it.
func (a *accessLimit) countFailure(s accessSource) {
	now := a.now()
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

// remember makes a record. If there are too many, it replaces the one that would
// expire first.
func (a *accessLimit) addRecord(s accessSource, now time.Time) *accessErrors {
	if a.sources == nil {
		a.sources = make(map[accessSource]*accessErrors)
	}
	if len(a.sources) >= maxAccessSources {
		var oldest accessSource
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
	e := &accessErrors{}
	a.sources[s] = e
	return e
}

// refuses reports whether a connection request has to be refused because its source
// has to wait. It counts the refusal.
func (a *accessLimit) refuses(s accessSource) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.sources[s]
	if e == nil || !a.now().Before(e.waitEnd) {
		return false
	}
	a.counts.inc(accessRefused)
	return true
}
