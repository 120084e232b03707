package reactor

import (
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// fullRetry is how long a loop that had no room is taken to have none, although none of
// its connections has ended: what was missing may have been memory of the system. The
// number is arbitrary.
const fullRetry = time.Second

// A fullness remembers which loops had no room for another connection on a device, so
// that requests are refused without asking the application and without an attempt. The
// zero value is ready. Any goroutine may call.
type fullness struct {
	mu    sync.Mutex
	seats map[seat]shortage
}

// A seat is where a connection would be.
type seat struct {
	loop int
	dev  verbs.Device
}

// A shortage is what was missing there.
type shortage struct {
	conns int64     // connections that the loop had, without the one that found no room
	tried time.Time // when a connection was last tried
}

// note remembers that there was no room for a connection beside conns others.
func (f *fullness) note(s seat, conns int64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seats == nil {
		f.seats = make(map[seat]shortage)
	}
	f.seats[s] = shortage{conns: conns, tried: now}
}

// clear forgets that there was no room.
func (f *fullness) clear(s seat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seats, s)
}

// full reports whether there is no room for a connection beside conns others, as far as
// is known. One connection may try again after fullRetry.
func (f *fullness) full(s seat, conns int64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, ok := f.seats[s]
	if !ok {
		return false
	}
	if conns < was.conns || now.Sub(was.tried) >= fullRetry {
		was.tried = now
		f.seats[s] = was
		return false
	}
	return true
}

// full reports whether a request from a peer on dev would find no room on the loop with
// an index.
func (e *Engine) full(index int, dev verbs.Device, now time.Time) bool {
	conns := e.loops[index].load.Load()
	if limit := e.cfg.MaxConns; limit > 0 && conns >= int64(limit) {
		return true
	}
	return e.fullness.full(seat{index, dev}, conns, now)
}

// noteRoom remembers whether there was room for a connection, which counts among those
// of the loop.
func (l *Loop) noteRoom(dev verbs.Device, room bool) {
	s := seat{l.index, dev}
	if room {
		l.engine.fullness.clear(s)
		return
	}
	l.engine.fullness.note(s, l.load.Load()-1, l.clock.time())
}
