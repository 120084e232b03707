package reactor

import (
	"iter"

	"github.com/rdmaloop/rdmaloop/internal/slots"
)

// A connTable finds a connection by its key: a wrID that has the connection's index and
// the low 20 bits of the connection's generation. The zero connTable is empty.
type connTable struct{ table slots.Table[*Conn] }

// add adds c to the table and sets c.key to its index and generation. It returns false
// if there are already maxConns connections.
func (t *connTable) add(c *Conn) bool {
	if t.table.Len() == maxConns {
		return false
	}
	h := t.table.Put(c)
	c.key = wrID(h.Index())<<indexShift | wrID(h.Generation()&generationMask)<<generationShift
	return true
}

// get returns the connection with the index and generation of id, or nil if it was
// removed.
func (t *connTable) get(id wrID) *Conn {
	if c := t.table.At(id.index()); c != nil && c.key.sameConn(id) {
		return c
	}
	return nil
}

// remove removes the connection with the index and generation of the given key, if there
// is one.
func (t *connTable) remove(key wrID) {
	if t.get(key) != nil {
		t.table.RemoveAt(key.index())
	}
}

func (t *connTable) count() int { return t.table.Len() }

// all iterates over the connections. Connections may be removed during the iteration.
func (t *connTable) all() iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for _, c := range t.table.All() {
			if !yield(*c) {
				return
			}
		}
	}
}

// A wrID is the id of a work request. For a shared receive queue it is the buffer's
// index in the pool. For other queues it has these parts, from the most significant bit:
//
//   - 20 bits: the connection's index in connTable.
//   - 20 bits: the index's generation. It differs from that of earlier connections with
//     this index, so their late completions are recognized.
//   - 1 bit: connBit, which the index of a shared buffer does not have.
//   - 1 bit: recvBit, set for receives.
//   - 22 bits: the slot of the request in its queue. A receive without a buffer has none.
type wrID uint64

const (
	bufferBits     = 23 // size of the index of a shared buffer
	generationBits = 20
	maxConns       = 1 << 20

	connBit         wrID = 1 << bufferBits
	recvBit              = connBit >> 1 // A slot is less than that, because it is less than 2*maxQueue.
	generationShift      = bufferBits + 1
	indexShift           = generationShift + generationBits
	generationMask       = 1<<generationBits - 1
)

// ofConn reports whether the id belongs to a request of one connection, and not to a buffer
// of a shared receive queue. The other methods, except buffer, need such an id.
func (id wrID) ofConn() bool { return id&connBit != 0 }

// buffer returns the index of a shared buffer in the pool.
func (id wrID) buffer() uint32 { return uint32(id & (connBit - 1)) }

// recv reports whether the request is a receive.
func (id wrID) recv() bool { return id&recvBit != 0 }

// slot returns the slot of the request in its queue.
func (id wrID) slot() uint32 { return uint32(id & (recvBit - 1)) }

// index returns the index of the connection.
func (id wrID) index() int { return int(id >> indexShift) }

// sameConn reports whether the two ids have the same connection index and generation.
func (id wrID) sameConn(other wrID) bool { return id>>generationShift == other>>generationShift }

// A connQueue is a FIFO queue of connections. Its zero value is empty.
type connQueue struct {
	conns []*Conn
	head  int
}

func (q *connQueue) len() int { return len(q.conns) - q.head }

func (q *connQueue) push(c *Conn) { q.conns = append(q.conns, c) }

// pop removes and returns the oldest connection. The queue must not be empty.
func (q *connQueue) pop() *Conn {
	c := q.conns[q.head]
	q.conns[q.head] = nil
	q.head++
	switch {
	case q.head == len(q.conns):
		q.conns, q.head = q.conns[:0], 0
	case q.head > len(q.conns)/2:
		// More than half of the elements were popped. The others move to the front of the
		// slice. On average, a connection moves about once.
		n := copy(q.conns, q.conns[q.head:])
		clear(q.conns[n:])
		q.conns, q.head = q.conns[:n], 0
	}
	return c
}
