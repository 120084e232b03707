package reactor

import "time"

// Balance chooses the loop for a new connection.
type Balance uint8

// Ways to balance.
const (
	// RoundRobin takes the loops in turn.
	RoundRobin Balance = iota
	// LeastConnections takes the loop that has the fewest connections, those
	// opening and closing included.
	LeastConnections
)

func (b Balance) String() string {
	names := [...]string{"round robin", "least connections"}
	if int(b) < len(names) {
		return names[b]
	}
	return "unknown balance"
}

// place chooses the loop for a request: the loop that the balance is due to use, or
// the next loop that is not known to be full. It reports false when all loops are
// full.
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

func (e *Engine) choose(req *ConnRequest) int {
	if e.cfg.Place != nil {
		if i := e.cfg.Place(req); i >= 0 && i < len(e.loops) {
			return i
		}
	}
	return e.balance()
}

func (e *Engine) balance() int {
	if e.cfg.Balance == LeastConnections {
		return e.leastLoaded()
	}
	return int((e.roundRobin.Add(1) - 1) % uint64(len(e.loops)))
}

func (e *Engine) leastLoaded() (index int) {
	for i, l := range e.loops {
		if l.load.Load() < e.loops[index].load.Load() {
			index = i
		}
	}
	return index
}
