package reactor

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Balance says how an engine chooses the loops of new connections: see Config.Balance.
type Balance uint8

// The values of Balance.
const (
	// RoundRobin chooses the loops in turn, in the order of their indexes.
	RoundRobin Balance = iota
	// LeastConnections chooses the loop that has the fewest connections. Connections
	// that are opening or closing count too.
	LeastConnections
)

// String returns the name of the value, such as "round robin".
func (b Balance) String() string {
	names := [...]string{"round robin", "least connections"}
	if int(b) < len(names) {
		return names[b]
	}
	return "unknown balance"
}

// loopFor chooses the loop for a request. It begins with the preferred loop, and takes
// the first loop that is not full. It returns nil if all loops are full.
func (e *Engine) loopFor(req *ConnRequest, now time.Time) *Loop {
	l := e.preferredLoop(req)
	for range e.loops {
		if !l.full(req.device, now) {
			return l
		}
		l = e.loops[(l.index+1)%len(e.loops)]
	}
	return nil
}

// preferredLoop returns the loop that Config.Place chooses. If Config.Place chooses
// none, Config.Balance does.
func (e *Engine) preferredLoop(req *ConnRequest) *Loop {
	if e.cfg.Place != nil {
		if l := e.cfg.Place(req); e.owns(l) {
			return l
		}
	}
	return e.nextLoop()
}

// owns reports whether l is a loop of the engine.
func (e *Engine) owns(l *Loop) bool { return l != nil && l.engine == e }

// nextLoop returns the loop that Config.Balance chooses.
func (e *Engine) nextLoop() *Loop {
	if e.cfg.Balance == LeastConnections {
		return slices.MinFunc(e.loops, func(a, b *Loop) int { return cmp.Compare(a.load.Load(), b.load.Load()) })
	}
	return e.loops[(e.roundRobin.Add(1)-1)%uint64(len(e.loops))]
}

// fullRetry is how long the engine does not choose a loop that had no room for a
// connection. Arbitrary.
const fullRetry = time.Second

// fullLoops records which loops had no room for another connection on a device. The
// engine chooses other loops for connections on this device. Any goroutine may call its
// methods.
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
	conns int64     // number of connections of the loop when it had no room
	tried time.Time // time of the last try to make a connection
}

// record stores that k.loop had no room for another connection on k.dev. The parameter
// conns is the number of connections that k.loop had at that time.
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

// full reports whether k.loop is known to have no room on k.dev. When connections have
// ended or fullRetry has passed, the engine may try the loop again, and the result is
// false.
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

// recordRoom records whether the loop had room for a connection on dev. Loop.load must
// still include the connection.
func (l *Loop) recordRoom(dev verbs.Device, room bool) {
	k := loopOnDevice{l, dev}
	if room {
		l.engine.fullLoops.clear(k)
		return
	}
	l.engine.fullLoops.record(k, l.load.Load()-1, l.clock.time())
}
