package reactor

import (
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// fullRetry is how long a loop that had no room counts as full although none of its
// connections has ended. The system may have memory again by then. The number is
// arbitrary.
const fullRetry = time.Second

// A fullness records which loops had no room for another connection on a device.
// Requests for these loops are refused without asking the application and without an
// attempt. The zero value is ready. Any goroutine may call its methods.
type fullLoops struct {
	mu      sync.Mutex
	entries map[loopOnDevice]fullRecord
}

// A seat is a loop and a device on which a connection may have room.
type loopOnDevice struct {
	loop int
	dev  verbs.Device
}

// A shortage says when a seat had no room.
type fullRecord struct {
	conns int64     // connections of the loop, without the refused one
	tried time.Time // when a connection was last tried there
}

// note records that the seat had no room for a connection in addition to conns
// others.
func (f *fullLoops) record(s loopOnDevice, conns int64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries == nil {
		f.entries = make(map[loopOnDevice]fullRecord)
	}
	f.entries[s] = fullRecord{conns: conns, tried: now}
}

// clear removes the record of the seat, because a connection found room.
func (f *fullLoops) clear(s loopOnDevice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.entries, s)
}

// full reports whether the seat is known to have no room for a connection in addition
// to conns others. After fullRetry it reports false for one connection, which tries
// again.
func (f *fullLoops) full(s loopOnDevice, conns int64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, ok := f.entries[s]
	if !ok {
		return false
	}
	if conns < was.conns || now.Sub(was.tried) >= fullRetry {
		was.tried = now
		f.entries[s] = was
		return false
	}
	return true
}

// full reports whether the loop with the index is known to have no room for a
// connection over dev.
func (e *Engine) full(index int, dev verbs.Device, now time.Time) bool {
	conns := e.loops[index].load.Load()
	if limit := e.cfg.MaxConns; limit > 0 && conns >= int64(limit) {
		return true
	}
	return e.fullLoops.full(loopOnDevice{index, dev}, conns, now)
}

// recordRoom records whether a connection found room. The connection is still counted
// in the load of the loop.
func (l *Loop) recordRoom(dev verbs.Device, room bool) {
	s := loopOnDevice{l.index, dev}
	if room {
		l.engine.fullLoops.clear(s)
		return
	}
	l.engine.fullLoops.record(s, l.load.Load()-1, l.clock.time())
}
