package reactor

import (
	"cmp"
	"slices"
	"time"
)

// A Balance says how an engine chooses the loops of new connections: see Config.Balance.
type Balance uint8

// The values of Balance.
const (
	// RoundRobin chooses the loops one after the other, in the order of their indexes,
	// and then begins again with the first loop.
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

// loopFor chooses the loop for a request. It takes the result of preferredLoop, unless
// that loop has no room for another connection: see Loop.full. Otherwise it takes the
// next loop with room, in the order of the indexes; the loop with index 0 follows the
// last one. loopFor returns nil if no loop has room.
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

// preferredLoop returns the loop that Config.Place chooses. If Place is nil or its result
// is not a loop of the engine, preferredLoop returns the loop that Config.Balance
// chooses.
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
