//go:build linux

package soft

import (
	"net/netip"
	"os"
	"sync"
	"time"
)

const (
	// freeAccessErrors is how many connections of a source may end by access errors
	// before it has to wait; arbitrary. A program whose peer has closed a region that
	// it still uses makes some without any ill will.
	freeAccessErrors = 8
	// leastAccessWait is how long a source has to wait the first time. The next times
	// it is twice as long as the last, up to mostAccessWait. Both are arbitrary.
	leastAccessWait = time.Second
	mostAccessWait  = 10 * time.Minute
	// accessMemory is how long errors count after the last one, or the last wait.
	accessMemory = 10 * time.Minute
	// maxAccessSources is how many sources are remembered; arbitrary. They take less
	// than 1 MiB. Where there are more, the one that is nearest to being forgotten is.
	maxAccessSources = 4096
)

// An accessSource is who answers for the remote accesses of a connection.
type accessSource struct {
	addr netip.Addr // wire path: an IPv4 address, or the network of an IPv6 address
	uid  uint32     // local path: the user, and
	pid  int32      // the process, if the user is root or the one of this process
}

// remoteSource is the source of a connection on the wire path; see sourceOf.
func remoteSource(addr netip.Addr) accessSource { return accessSource{addr: sourceOf(addr)} }

// localSource is that of one on the local path. Who may trace this process (ptrace(2))
// gains nothing by guessing keys, so that of such users each process counts alone.
func localSource(uid uint32, pid int32) accessSource {
	if uid != 0 && uid != uint32(os.Geteuid()) {
		pid = 0
	}
	return accessSource{uid: uid, pid: pid}
}

// An accessLimit makes the guessing of remote keys slow. Each wrong guess ends a
// connection, and a source that has had several end so has to
// wait before it may connect again. Its connections that are open stay so. It may be
// used from any goroutine. The zero value, given counts, has seen no errors.
type accessLimit struct {
	clock  func() time.Time // nil: time.Now
	counts *counters

	mu      sync.Mutex
	sources map[accessSource]*accessErrors
}

// accessErrors are the errors of one source.
type accessErrors struct {
	count  int           // those that were free
	wait   time.Duration // the last one
	until  time.Time     // its end
	forget time.Time     // when all of this is forgotten
}

func (a *accessLimit) now() time.Time {
	if a.clock != nil {
		return a.clock()
	}
	return time.Now()
}

// failed counts a connection of a source that has ended by an access error. Those that
// end while the source has to wait count no more: they were open before.
func (a *accessLimit) failed(s accessSource) {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.sources[s]
	if e == nil || !now.Before(e.forget) {
		e = a.remember(s, now)
	}
	switch {
	case e.count < freeAccessErrors:
		e.count++
	case !now.Before(e.until):
		e.wait = min(max(2*e.wait, leastAccessWait), mostAccessWait)
		e.until = now.Add(e.wait)
	}
	e.forget = now.Add(accessMemory)
	if e.until.After(now) {
		e.forget = e.until.Add(accessMemory)
	}
}

// remember makes a record, in the place of another one where there are too many.
func (a *accessLimit) remember(s accessSource, now time.Time) *accessErrors {
	if a.sources == nil {
		a.sources = make(map[accessSource]*accessErrors)
	}
	if len(a.sources) >= maxAccessSources {
		var oldest accessSource
		first := time.Time{}
		for other, e := range a.sources {
			if !now.Before(e.forget) {
				delete(a.sources, other)
			} else if first.IsZero() || e.forget.Before(first) {
				oldest, first = other, e.forget
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

// refuses reports whether a request for a connection is to be refused, since its source
// has to wait, and counts it.
func (a *accessLimit) refuses(s accessSource) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.sources[s]
	if e == nil || !a.now().Before(e.until) {
		return false
	}
	a.counts.inc(accessRefused)
	return true
}
