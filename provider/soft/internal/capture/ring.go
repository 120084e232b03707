package capture

import "sync/atomic"

// A ring has the blocks of a Tap that were not copied to the file yet, one after another. The
// Tap adds whole blocks, and the goroutine of the Capture takes them. A block may begin near
// the end of the memory and continue at its beginning. Sizes of blocks are multiples of four.
type ring struct {
	buf     []byte        // its length is a power of two
	filled  atomic.Uint64 // bytes of whole blocks that were added since the beginning
	taken   atomic.Uint64 // bytes that were taken since the beginning
	written uint64        // the same as filled, and in addition the begin of a block; of the Tap
	until   uint64        // value of filled up to which blocks are taken now; of the Capture
}

// fits reports whether there is room for a block of n bytes.
func (r *ring) fits(n int) bool {
	return r.written+uint64(n)-r.taken.Load() <= uint64(len(r.buf))
}

// write adds bytes of a block, for which there must be room.
func (r *ring) write(b []byte) {
	at := r.written & uint64(len(r.buf)-1)
	n := copy(r.buf[at:], b)
	copy(r.buf, b[n:])
	r.written += uint64(len(b))
}

// publish ends a block. It reports whether the ring is half full.
func (r *ring) publish() (half bool) {
	r.filled.Store(r.written)
	return r.written-r.taken.Load() > uint64(len(r.buf)/2)
}

// head copies the first bytes of the next block. It returns false if there is none before
// r.until.
func (r *ring) head(b *[packetHead]byte) bool {
	taken := r.taken.Load()
	if taken == r.until {
		return false
	}
	r.read(b[:], taken)
	return true
}

// read copies bytes, of which the first is number from since the beginning.
func (r *ring) read(b []byte, from uint64) {
	n := copy(b, r.buf[from&uint64(len(r.buf)-1):])
	copy(b[n:], r.buf)
}

// take appends the next block, of the given size, to b.
func (r *ring) take(b []byte, size int) []byte {
	taken, n := r.taken.Load(), len(b)
	b = append(b, make([]byte, size)...)
	r.read(b[n:], taken)
	r.taken.Store(taken + uint64(size))
	return b
}
