package reactor

import (
	"iter"

	"github.com/rdmaloop/rdmaloop/internal/slots"
)

// A wrID is the id of a work request. It has four parts, from the most significant bit:
// 20 bits for the index of the connection in connTable, 20 bits for its generation, one
// bit that is set for send requests, and 23 bits for the slot of the request in its
// queue. The id of a receive request of a shared receive queue is the index of its buffer
// in slab.all. When a connection is closed and a new one gets its index, the generations
// differ, so a late completion of the old connection is not passed to the new one.
type wrID uint64

const (
	slotBits       = 23
	generationBits = 20
	maxConns       = 1 << 20

	sendBit         wrID = 1 << slotBits
	generationShift      = slotBits + 1
	indexShift           = generationShift + generationBits
	generationMask       = 1<<generationBits - 1
)

// send reports whether the id is that of a send request.
func (id wrID) send() bool { return id&sendBit != 0 }

// slot returns the slot of the request in its queue.
func (id wrID) slot() uint32 { return uint32(id & (sendBit - 1)) }

// index returns the index of the connection.
func (id wrID) index() int { return int(id >> indexShift) }

// sameConn reports whether two ids have the same index and generation.
func (id wrID) sameConn(other wrID) bool { return id>>generationShift == other>>generationShift }

// A connTable finds a connection by the id of its work requests. Its zero value is empty.
// The table counts generations beyond 20 bits, of which an id has only the low 20.
type connTable struct{ table slots.Table[*Conn] }

// add adds c. It sets c.key to a key that has the index and the generation of c, from
// which the ids of its work requests are made. add returns false if there are maxConns
// connections.
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

// remove removes the connection with the index and generation of key, if there is one.
func (t *connTable) remove(key wrID) {
	if t.get(key) != nil {
		t.table.RemoveAt(key.index())
	}
}

// count returns the number of connections.
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
