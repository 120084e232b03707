package main

import "sync/atomic"

const (
	// Messages are copied in fragments of this length in bytes, so that the receiver copies
	// one while the sender copies the next. Arbitrary.
	ringFragment = 4 << 10
	// Length of a ring in bytes, if that is enough for minRingCells cells: it fits into
	// the second-level cache of most processors.
	ringBytes    = 256 << 10
	minRingCells = 16
)

// A ring transfers messages in one direction through shared memory. The sender and the
// receiver each have a ring on the same memory.
type ring struct {
	cells []cell
	// Number of fragments that the receiver has copied out of the cells.
	received *atomic.Uint64
	fragment int    // Length of a fragment in bytes.
	next     uint64 // Number of the next fragment, from 0.
	// Number of fragments that the sender may write before it reads received again.
	limit uint64
}

// ringShape returns the number of cells for messages of the given length, and the length
// of their fragments in bytes.
func ringShape(message int) (cells, fragment int) {
	fragment = min(message, ringFragment)
	return max(minRingCells, ringBytes/cellSize(fragment)), fragment
}

// ringSize returns the length in bytes of the memory of a ring.
func ringSize(message int) int {
	cells, fragment := ringShape(message)
	return cellAlign + cells*cellSize(fragment)
}

// newRing returns one side of the ring at the given offset of the memory.
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

// ready reports whether the first fragment of the next message has arrived.
func (r *ring) ready() bool { return r.cells[r.next%uint64(len(r.cells))].count.Load() == r.next+1 }

// take copies the next message out of the ring. It waits until all of it has arrived.
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
