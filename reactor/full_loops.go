package reactor

import (
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// fullRetry is the time after which the engine tries again to make a connection on a
// loop that had no room. By then the system may have memory again. If a connection of
// the loop ends earlier, the engine tries again for the next request. The number is
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
	conns int64     // number of connections that the loop had at that time, without the refused one
	tried time.Time // time of the last try to make a connection
}

// record records that k.loop had no room for another connection on k.dev. The parameter
// now is the time at which this was found out, and the parameter conns is how many
// connections k.loop had at that time, without the refused one.
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

// full reports whether k.loop is known to have no room for another connection on k.dev.
// The parameter conns is how many connections k.loop has now. In two cases full reports
// false, so that the engine tries again: the loop has fewer connections than at the time
// of the record, or fullRetry has passed since the last try. The number conns includes
// accepted requests whose connection the loop has not made yet, but not requests that
// the application has not answered yet. So after n connections have ended, at most n
// accepted requests are tried at a time.
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
	if conns >= int64(l.cfg.MaxConns) {
		return true
	}
	return l.engine.fullLoops.full(loopOnDevice{l, dev}, conns, now)
}

// recordRoom records whether the loop had room for a connection on dev. If the loop had
// no room, the caller must call recordRoom before it destroys the refused connection,
// because recordRoom expects that Loop.load still includes this connection.
func (l *Loop) recordRoom(dev verbs.Device, room bool) {
	k := loopOnDevice{l, dev}
	if room {
		l.engine.fullLoops.clear(k)
		return
	}
	l.engine.fullLoops.record(k, l.load.Load()-1, l.clock.time())
}
