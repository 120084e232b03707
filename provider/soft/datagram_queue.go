//go:build linux

package soft

import "encoding/binary"

// A packetQueue holds packets in the order in which they were pushed, one behind
// the other in one piece of memory. The zero value is empty. Sizes are in bytes,
// with 4 more for each packet.
type packetQueue struct {
	buf   []byte // length (32), packet, length, ...
	head  int    // where the first packet's length is
	count int
}

// packetLength is the size of a packet's length in the queue.
const packetLength = 4

func queuedSize(b []byte) int { return packetLength + len(b) }

func (q *packetQueue) empty() bool { return q.count == 0 }

// size is the number of bytes that are queued.
func (q *packetQueue) size() int { return len(q.buf) - q.head }

// push adds a copy of a packet, and returns the bytes that it takes.
func (q *packetQueue) push(b []byte) int {
	if q.head > len(q.buf)/2 { // each byte is moved at most once for one that was sent
		q.buf = append(q.buf[:0], q.buf[q.head:]...)
		q.head = 0
	}
	q.buf = binary.NativeEndian.AppendUint32(q.buf, uint32(len(b)))
	q.buf = append(q.buf, b...)
	q.count++
	return queuedSize(b)
}

// first is the packet that was pushed first, until the next call of push or pop.
func (q *packetQueue) first() []byte {
	n := int(binary.NativeEndian.Uint32(q.buf[q.head:]))
	return q.buf[q.head+packetLength:][:n]
}

// pop removes the first packet, and returns the bytes that it took. A queue that
// has become empty gives its memory back.
func (q *packetQueue) pop() int {
	size := queuedSize(q.first())
	q.head += size
	if q.count--; q.count == 0 {
		*q = packetQueue{}
	}
	return size
}

// clear removes all packets, and returns the bytes that they took.
func (q *packetQueue) clear() int {
	size := q.size()
	*q = packetQueue{}
	return size
}
