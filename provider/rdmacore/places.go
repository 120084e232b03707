//go:build rdmacore && cgo && linux

package rdmacore

// orderedPlaces are those of a send queue: they are given back in the order in
// which they were taken, and the completion of one gives back all before it,
// which were not signaled (IBTA vol. 1, 10.8.5.1).
type orderedPlaces struct {
	ids        []uint64
	head, tail uint64 // how many were ever taken, and given back
}

func newOrderedPlaces(n int) orderedPlaces { return orderedPlaces{ids: make([]uint64, n)} }

func (p *orderedPlaces) room() int { return len(p.ids) - int(p.head-p.tail) }

// take takes the next place; there is room.
func (p *orderedPlaces) take(id uint64) uint32 {
	i := p.head % uint64(len(p.ids))
	p.ids[i] = id
	p.head++
	return uint32(i)
}

// untake gives back the n places taken last.
func (p *orderedPlaces) untake(n int) { p.head -= uint64(n) }

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

func (p *orderedPlaces) forget() { p.tail = p.head }

// poolPlaces are those of receive queues. Queue pairs that share one complete
// out of order.
type poolPlaces struct {
	ids  []uint64
	used []bool
	free []uint32
}

func newPoolPlaces(n int) poolPlaces {
	p := poolPlaces{ids: make([]uint64, n), used: make([]bool, n), free: make([]uint32, 0, n)}
	p.forget()
	return p
}

func (p *poolPlaces) room() int { return len(p.free) }

// take takes any place; there is room.
func (p *poolPlaces) take(id uint64) uint32 {
	last := len(p.free) - 1
	i := p.free[last]
	p.free = p.free[:last]
	p.ids[i], p.used[i] = id, true
	return i
}

func (p *poolPlaces) settle(place uint32) (id uint64, ok bool) {
	if int(place) >= len(p.used) || !p.used[place] {
		return 0, false
	}
	p.used[place] = false
	p.free = append(p.free, place)
	return p.ids[place], true
}

func (p *poolPlaces) forget() {
	p.free = p.free[:0]
	for i := len(p.used) - 1; i >= 0; i-- {
		p.used[i] = false
		p.free = append(p.free, uint32(i))
	}
}
