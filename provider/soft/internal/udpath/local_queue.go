//go:build linux

package udpath

import "encoding/binary"

// A packetQueue is a FIFO queue of packets in one piece of memory. A length field of 4
// bytes precedes each packet. The zero value is empty.
type packetQueue struct {
	buf   []byte // length (32 bits), packet, length (32 bits), packet, ...
	head  int    // offset in buf at which the first packet begins, with its length
	count int    // number of packets in the queue
}

// packetLength is the size of the length that precedes each packet.
const packetLength = 4

// queuedSize returns how many bytes a packet takes in the queue.
func queuedSize(b []byte) int { return packetLength + len(b) }

func (q *packetQueue) empty() bool { return q.count == 0 }

// size returns the number of queued bytes.
func (q *packetQueue) size() int { return len(q.buf) - q.head }

// push adds a copy of a packet, and returns its size in the queue.
func (q *packetQueue) push(b []byte) int {
	// The move is worth its cost, because more than half of the buffer is free. So fewer
	// bytes are moved than were popped since the last move.
	if q.head > len(q.buf)/2 {
		q.buf = append(q.buf[:0], q.buf[q.head:]...)
		q.head = 0
	}
	q.buf = binary.NativeEndian.AppendUint32(q.buf, uint32(len(b)))
	q.buf = append(q.buf, b...)
	q.count++
	return queuedSize(b)
}

// first returns the oldest packet, which is valid until push() or pop().
func (q *packetQueue) first() []byte {
	n := int(binary.NativeEndian.Uint32(q.buf[q.head:]))
	return q.buf[q.head+packetLength:][:n]
}

// pop removes the oldest packet, and returns its size in the queue.
func (q *packetQueue) pop() int {
	size := queuedSize(q.first())
	q.head += size
	if q.count--; q.count == 0 {
		*q = packetQueue{}
	}
	return size
}

// clear removes all packets, and returns their size in the queue.
func (q *packetQueue) clear() int {
	size := q.size()
	*q = packetQueue{}
	return size
}
