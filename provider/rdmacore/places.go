//go:build cgo && linux

package rdmacore

// orderedPlaces are the places of a send queue. The queue has one place for each request
// that it can hold. Requests complete in order, so a completion also frees the places of
// unsignaled requests before it (IBTA vol. 1, 10.8.5.1).
type orderedPlaces struct {
	// The caller's ID for the request in each place. The length is a power of two, and
	// at least limit.
	ids   []uint64
	limit int // the largest number of occupied places
	// head counts the places that were ever occupied, tail the places that were freed.
	head, tail uint64
}

func newOrderedPlaces(n int) orderedPlaces {
	size := 1
	for size < n {
		size <<= 1
	}
	return orderedPlaces{ids: make([]uint64, size), limit: n}
}

// room returns the number of free places.
func (p *orderedPlaces) room() int { return p.limit - int(p.head-p.tail) }

// mask returns the bits of head or tail that are an index in ids.
func (p *orderedPlaces) mask() uint64 { return uint64(len(p.ids) - 1) }

// occupy puts a request with the given ID into the next place. There must be a free
// place.
func (p *orderedPlaces) occupy(id uint64) uint32 {
	i := p.head & p.mask()
	p.ids[i] = id
	p.head++
	return uint32(i)
}

// returnLast frees the n places that were occupied last.
func (p *orderedPlaces) returnLast(n int) { p.head -= uint64(n) }

// settle frees a place and all places before it. It returns the ID of the request in the
// place, or false if the place is not in use.
func (p *orderedPlaces) settle(place uint32) (id uint64, ok bool) {
	before := (uint64(place) - p.tail) & p.mask()
	if int(place) >= len(p.ids) || before >= p.head-p.tail {
		return 0, false
	}
	p.tail += before + 1
	return p.ids[place], true
}

// reset frees all places.
func (p *orderedPlaces) reset() { p.tail = p.head }

// poolPlaces are the places of a receive queue. They become free in any order.
type poolPlaces struct {
	ids  []uint64
	used []bool
	free []uint32
}

// newPoolPlaces returns n places, all of them free.
func newPoolPlaces(n int) poolPlaces {
	p := poolPlaces{ids: make([]uint64, n), used: make([]bool, n), free: make([]uint32, 0, n)}
	p.reset()
	return p
}

// room returns the number of free places.
func (p *poolPlaces) room() int { return len(p.free) }

// occupy puts a request with the given ID into a free place. There must be a free place.
func (p *poolPlaces) occupy(id uint64) uint32 {
	last := len(p.free) - 1
	i := p.free[last]
	p.free = p.free[:last]
	p.ids[i], p.used[i] = id, true
	return i
}

// settle frees a place and returns the ID of its request, or false if the place is not
// in use.
func (p *poolPlaces) settle(place uint32) (id uint64, ok bool) {
	if int(place) >= len(p.used) || !p.used[place] {
		return 0, false
	}
	p.used[place] = false
	p.free = append(p.free, place)
	return p.ids[place], true
}

// reset frees all places.
func (p *poolPlaces) reset() {
	p.free = p.free[:0]
	for i := len(p.used) - 1; i >= 0; i-- {
		p.used[i] = false
		p.free = append(p.free, uint32(i))
	}
}
