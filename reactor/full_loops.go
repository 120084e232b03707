package reactor

import (
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// If a loop had no room for a connection, the engine does not choose this loop for some
// time. After fullRetry the engine tries the loop anew, because the system may have
// memory by then. Arbitrary.
const fullRetry = time.Second

// fullLoops records which loops had no room for another connection on a device. The
// engine gives connection requests on that device to other loops. The zero value has no
// records. Any goroutine may call its methods.
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
	conns int64     // number of connections that the loop had at that time, without the refused one
	tried time.Time // time of the last try to make a connection
}

// record records that k.loop had no room on k.dev. The parameter conns is the number of
// connections of k.loop, without the refused one. The parameter now is the present time.
func (f *fullLoops) record(k loopOnDevice, conns int64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries == nil {
		f.entries = make(map[loopOnDevice]fullRecord)
	}
	f.entries[k] = fullRecord{conns: conns, tried: now}
}

// clear removes the record of k, because k.loop had room for a connection on k.dev.
func (f *fullLoops) clear(k loopOnDevice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.entries, k)
}

// full reports whether k.loop is known to have no room on k.dev. The parameter conns is
// the number of connections that k.loop has now. If the loop has fewer connections than
// when the record was made, it may have room again, and full returns false. If fullRetry
// has passed since the last try, full also returns false. The engine then tries the loop.
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

// full reports whether the loop has MaxConns connections, or is known to have no room on
// dev.
func (l *Loop) full(dev verbs.Device, now time.Time) bool {
	conns := l.load.Load()
	if conns >= int64(l.cfg.MaxConns) {
		return true
	}
	return l.engine.fullLoops.full(loopOnDevice{l, dev}, conns, now)
}

// recordRoom records whether the loop had room for a connection on dev. If there was no
// room, the caller destroys the connection only after recordRoom. So Loop.load still
// includes the connection, and recordRoom subtracts one.
func (l *Loop) recordRoom(dev verbs.Device, room bool) {
	k := loopOnDevice{l, dev}
	if room {
		l.engine.fullLoops.clear(k)
		return
	}
	l.engine.fullLoops.record(k, l.load.Load()-1, l.clock.time())
}
