package reactor

import (
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// fullRetry is how long a loop that had no room counts as full if none of its connections
// has ended meanwhile. After that time the system may have memory again. The number is
// arbitrary.
const fullRetry = time.Second

// fullLoops records which loops had no room for another connection on a device. Requests
// for these loops are rejected without calling OnConnectRequest and without trying to
// make a connection. The zero value has no records. Any goroutine may call its methods.
type fullLoops struct {
	mu      sync.Mutex
	entries map[loopOnDevice]fullRecord
}

// A loopOnDevice identifies a loop and a device.
type loopOnDevice struct {
	loop *Loop
	dev  verbs.Device
}

// A fullRecord says when a loop had no room for another connection on a device.
type fullRecord struct {
	conns int64     // number of connections of the loop, without the refused one
	tried time.Time // time at which making a connection was last tried
}

// record records that loop k, which had conns connections, had no room for another one.
func (f *fullLoops) record(k loopOnDevice, conns int64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries == nil {
		f.entries = make(map[loopOnDevice]fullRecord)
	}
	f.entries[k] = fullRecord{conns: conns, tried: now}
}

// clear removes the record of loop k, because it had room for a connection.
func (f *fullLoops) clear(k loopOnDevice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.entries, k)
}

// full reports whether loop k, which has conns connections, is known to have no room for
// another connection. It reports false if the number of connections has decreased, and
// once in each fullRetry, so that the engine tries again. Accept increases the number
// before the loop tries, so that no more accepted requests are tried at a time than
// connections have ended. Requests that the application has not answered yet do not
// count.
func (f *fullLoops) full(k loopOnDevice, conns int64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	entry, ok := f.entries[k]
	if !ok {
		return false
	}
	if conns < entry.conns || now.Sub(entry.tried) >= fullRetry {
		entry.tried = now
		f.entries[k] = entry
		return false
	}
	return true
}

// full reports whether the loop has MaxConns connections, or is known to have no room for
// a connection on dev.
func (l *Loop) full(dev verbs.Device, now time.Time) bool {
	conns := l.load.Load()
	if limit := l.cfg.MaxConns; limit > 0 && conns >= int64(limit) {
		return true
	}
	return l.engine.fullLoops.full(loopOnDevice{l, dev}, conns, now)
}

// recordRoom records whether the loop had room for a connection on dev. The connection is
// still counted in the load of the loop.
func (l *Loop) recordRoom(dev verbs.Device, room bool) {
	k := loopOnDevice{l, dev}
	if room {
		l.engine.fullLoops.clear(k)
		return
	}
	l.engine.fullLoops.record(k, l.load.Load()-1, l.clock.time())
}
