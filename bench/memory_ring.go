package main

import "sync/atomic"

const (
	// Size of a fragment in bytes. The sender copies a message in fragments, and the
	// receiver copies one fragment while the sender copies the next. Arbitrary.
	ringFragment = 4 << 10
	// Length of a ring in bytes. It fits into the second-level cache of most processors.
	// A ring with large cells is longer, because it has at least minRingCells cells.
	ringBytes    = 256 << 10
	minRingCells = 16
)

// A ring carries messages in one direction through shared memory. The sender and the
// receiver each have a ring for the same memory.
type ring struct {
	cells []cell
	// Number of fragments that the receiver has read.
	received *atomic.Uint64
	fragment int    // Length of a fragment in bytes.
	next     uint64 // Number of the next fragment, from 0.
	// When next reaches this number, the sender reads the field received again.
	limit uint64
}

// ringShape returns the number of cells for messages of the given length, and the length
// of a fragment in bytes.
func ringShape(message int) (cells, fragment int) {
	fragment = min(message, ringFragment)
	return max(minRingCells, ringBytes/cellSize(fragment)), fragment
}

// ringSize returns the bytes of memory that a ring needs.
func ringSize(message int) int {
	cells, fragment := ringShape(message)
	return cellAlign + cells*cellSize(fragment)
}

// newRing returns one side of the ring at an offset of the memory.
func newRing(f *sharedFile, offset, message int) *ring {
	cells, fragment := ringShape(message)
	return &ring{
		received: cellAt(f.memory, offset, 0).count,
		cells:    f.cells(offset+cellAlign, cells, fragment),
		fragment: fragment,
		limit:    uint64(cells),
	}
}

// put writes a message into the ring. It waits while the ring is full.
func (r *ring) put(message []byte) {
	for len(message) > 0 {
		for r.next == r.limit {
			r.limit = r.received.Load() + uint64(len(r.cells))
		}
		to := &r.cells[r.next%uint64(len(r.cells))]
		n := copy(to.bytes[:min(r.fragment, len(message))], message)
		message = message[n:]
		r.next++
		to.count.Store(r.next)
	}
}

// ready reports whether the next message has begun to arrive.
func (r *ring) ready() bool { return r.cells[r.next%uint64(len(r.cells))].count.Load() == r.next+1 }

// take copies the next message out of the ring. It waits until the whole message has
// arrived.
func (r *ring) take(message []byte) {
	for len(message) > 0 {
		for !r.ready() {
		}
		from := &r.cells[r.next%uint64(len(r.cells))]
		n := copy(message, from.bytes[:min(r.fragment, len(message))])
		message = message[n:]
		r.next++
		if r.next%uint64(len(r.cells)/4) == 0 {
			r.received.Store(r.next)
		}
	}
}
