package reactor

import "time"

// Balance chooses the loop for a new connection.
type Balance uint8

// The values of Balance.
const (
	// RoundRobin chooses the loops one after the other, in the order of their indexes.
	RoundRobin Balance = iota
	// LeastConnections chooses the loop that has the fewest connections. Connections
	// that are opening or closing count too.
	LeastConnections
)

func (b Balance) String() string {
	names := [...]string{"round robin", "least connections"}
	if int(b) < len(names) {
		return names[b]
	}
	return "unknown balance"
}

// place chooses the loop for a request. If the loop that choose returns is known to be
// full, place takes the next loop that is not known to be full. It reports false when all
// loops are known to be full.
func (e *Engine) place(req *ConnRequest, now time.Time) (index int, room bool) {
	index = e.choose(req)
	for range e.loops {
		if !e.full(index, req.device, now) {
			return index, true
		}
		index = (index + 1) % len(e.loops)
	}
	return 0, false
}

// choose returns the loop that Config.Place chooses. If Place is nil or its result is out
// of range, choose returns the loop that Config.Balance chooses.
func (e *Engine) choose(req *ConnRequest) int {
	if e.cfg.Place != nil {
		if i := e.cfg.Place(req); i >= 0 && i < len(e.loops) {
			return i
		}
	}
	return e.nextLoop()
}

// nextLoop returns the index of the loop that Config.Balance chooses.
func (e *Engine) nextLoop() int {
	if e.cfg.Balance == LeastConnections {
		return e.leastConnections()
	}
	return int((e.roundRobin.Add(1) - 1) % uint64(len(e.loops)))
}

// leastConnections returns the index of the loop with the fewest connections.
func (e *Engine) leastConnections() (index int) {
	for i, l := range e.loops {
		if l.load.Load() < e.loops[index].load.Load() {
			index = i
		}
	}
	return index
}
