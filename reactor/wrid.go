package reactor

import "iter"

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

// generation returns the generation of the connection.
func (id wrID) generation() uint32 { return uint32(id>>generationShift) & generationMask }

// A connTable finds a connection by the id of its work requests. Its zero value is empty.
type connTable struct {
	slots []connSlot
	free  []int
	count int
}

// A connSlot is one element of a connTable.
type connSlot struct {
	conn       *Conn  // nil if the slot is free
	generation uint32 // number of connections that have had the slot, modulo 1<<20
}

// add adds c. It returns a key that has the index and the generation of c, from which the
// ids of its work requests are made. ok is false if there are maxConns connections.
func (t *connTable) add(c *Conn) (key wrID, ok bool) {
	if len(t.free) == 0 {
		if len(t.slots) == maxConns {
			return 0, false
		}
		t.free = append(t.free, len(t.slots))
		t.slots = append(t.slots, connSlot{})
	}
	index := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	s := &t.slots[index]
	s.conn = c
	s.generation = (s.generation + 1) & generationMask
	t.count++
	return wrID(index)<<indexShift | wrID(s.generation)<<generationShift, true
}

// get returns the connection with the index and generation of id, or nil if it was
// removed.
func (t *connTable) get(id wrID) *Conn {
	index := id.index()
	if index >= len(t.slots) {
		return nil
	}
	if s := &t.slots[index]; s.generation == id.generation() {
		return s.conn
	}
	return nil
}

// remove removes the connection with the index and generation of key, if there is one.
func (t *connTable) remove(key wrID) {
	if t.get(key) == nil {
		return
	}
	t.slots[key.index()].conn = nil
	t.free = append(t.free, key.index())
	t.count--
}

// all iterates over the connections. Connections may be removed during the iteration.
func (t *connTable) all() iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for i := range t.slots {
			if c := t.slots[i].conn; c != nil && !yield(c) {
				return
			}
		}
	}
}
