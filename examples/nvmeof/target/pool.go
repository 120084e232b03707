package target

import (
	"math/bits"

	"github.com/rdmaloop/rdmaloop/reactor"
)

const (
	unit      = 4096 // size of the smallest buffer in bytes
	numOrders = 9    // number of sizes; a buffer of order n has unit << n bytes, at most maxData
)

// A pool divides a region into buffers whose sizes are powers of two. It is a buddy
// allocator: a free buffer is split for a smaller one, and two free halves become one
// buffer again. Only the loop that owns the pool may use it.
type pool struct {
	region *reactor.Region
	free   [numOrders][]int32 // numbers of the first units of the free buffers
	// freeOrder[u] is the order, plus 1, of the free buffer that begins with unit u. It
	// is 0 if no free buffer begins there.
	freeOrder []uint8
	// If a free buffer of order n begins with unit u, position[u] is the index of u in
	// free[n].
	position []int32
	inUse    int // number of buffers that get has returned and put has not taken back
}

// A memory is a buffer of a pool. The zero value is no buffer.
type memory struct {
	first int32 // number of the first unit of the buffer
	order int8
	held  bool
}

// newPool returns a pool of the memory of the region, whose size is a multiple of
// maxData.
func newPool(r *reactor.Region) *pool {
	units := len(r.Bytes()) / unit
	p := &pool{region: r, freeOrder: make([]uint8, units), position: make([]int32, units)}
	for u := 0; u < units; u += maxData / unit {
		p.add(int32(u), numOrders-1)
	}
	return p
}

// get returns a buffer of at least n bytes. If there is none, ok is false. The parameter
// n is from 1 to maxData.
func (p *pool) get(n int) (m memory, ok bool) {
	order := bits.Len(uint((n - 1) / unit))
	from := order
	for from < numOrders && len(p.free[from]) == 0 {
		from++
	}
	if from == numOrders {
		return memory{}, false
	}
	list := p.free[from]
	first := list[len(list)-1]
	p.remove(first, from)
	for ; from > order; from-- {
		p.add(first+1<<(from-1), from-1)
	}
	p.inUse++
	return memory{first: first, order: int8(order), held: true}, true
}

// put returns a buffer to the pool.
func (p *pool) put(m memory) {
	p.inUse--
	first, order := m.first, int(m.order)
	for order < numOrders-1 {
		other := first ^ 1<<order
		if p.freeOrder[other] != uint8(order+1) {
			break
		}
		p.remove(other, order)
		first, order = min(first, other), order+1
	}
	p.add(first, order)
}

// add adds a buffer to the free ones.
func (p *pool) add(first int32, order int) {
	p.freeOrder[first], p.position[first] = uint8(order+1), int32(len(p.free[order]))
	p.free[order] = append(p.free[order], first)
}

// remove removes a buffer from the free ones.
func (p *pool) remove(first int32, order int) {
	list, at := p.free[order], p.position[first]
	last := list[len(list)-1]
	list[at], p.position[last] = last, at
	p.free[order], p.freeOrder[first] = list[:len(list)-1], 0
}

// bytes returns the first n bytes of a buffer.
func (p *pool) bytes(m memory, n int) []byte {
	at := int(m.first) * unit
	return p.region.Bytes()[at : at+n : at+n]
}

// piece returns the first n bytes of a buffer for an operation of a connection.
func (p *pool) piece(m memory, n int) reactor.Piece {
	return reactor.Piece{Region: p.region, Offset: int(m.first) * unit, Length: n}
}
