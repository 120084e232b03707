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
