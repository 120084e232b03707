//go:build rdmacore && cgo && linux

package rdmacore

// orderedPlaces are the places of a send queue. They are returned in the order in which
// they were taken. The completion of a request also returns the places of the unsignaled
// requests before it (IBTA vol. 1, 10.8.5.1).
type orderedPlaces struct {
	ids []uint64 // the caller's ID of the request at each place
	// Head counts the places that were ever taken, tail those that were returned.
	head, tail uint64
}

func newOrderedPlaces(n int) orderedPlaces { return orderedPlaces{ids: make([]uint64, n)} }

// room returns the number of free places.
func (p *orderedPlaces) room() int { return len(p.ids) - int(p.head-p.tail) }

// take takes the next place. There must be a free place.
func (p *orderedPlaces) take(id uint64) uint32 {
	i := p.head % uint64(len(p.ids))
	p.ids[i] = id
	p.head++
	return uint32(i)
}

// returnLast returns the n places that were taken last.
func (p *orderedPlaces) returnLast(n int) { p.head -= uint64(n) }

// settle returns a place and the places before it. It returns the caller's ID of the
// request, or false for a place that is not taken.
func (p *orderedPlaces) settle(place uint32) (id uint64, ok bool) {
	n := uint64(len(p.ids))
	if uint64(place) >= n {
		return 0, false
	}
	before := (uint64(place) + n - p.tail%n) % n
	if before >= p.head-p.tail {
		return 0, false
	}
	p.tail += before + 1
	return p.ids[place], true
}

// reset returns all places.
func (p *orderedPlaces) reset() { p.tail = p.head }

// poolPlaces are the places of a receive queue. They may be returned in any order,
// because queue pairs that share the queue complete independently.
type poolPlaces struct {
	ids  []uint64
	used []bool
	free []uint32
}

// newPoolPlaces returns n free places.
func newPoolPlaces(n int) poolPlaces {
	p := poolPlaces{ids: make([]uint64, n), used: make([]bool, n), free: make([]uint32, 0, n)}
	p.reset()
	return p
}

// room returns the number of free places.
func (p *poolPlaces) room() int { return len(p.free) }

// take takes any free place. There must be a free place.
func (p *poolPlaces) take(id uint64) uint32 {
	last := len(p.free) - 1
	i := p.free[last]
	p.free = p.free[:last]
	p.ids[i], p.used[i] = id, true
	return i
}

// settle returns a place. It returns the caller's ID of the request, or false for a
// place that is not taken.
func (p *poolPlaces) settle(place uint32) (id uint64, ok bool) {
	if int(place) >= len(p.used) || !p.used[place] {
		return 0, false
	}
	p.used[place] = false
	p.free = append(p.free, place)
	return p.ids[place], true
}

// reset returns all places.
func (p *poolPlaces) reset() {
	p.free = p.free[:0]
	for i := len(p.used) - 1; i >= 0; i-- {
		p.used[i] = false
		p.free = append(p.free, uint32(i))
	}
}
