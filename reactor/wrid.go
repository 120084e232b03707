package reactor

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

// send reports whether the id belongs to a send request.
func (id wrID) send() bool { return id&sendBit != 0 }

// slot returns the slot of the request in its queue.
func (id wrID) slot() uint32 { return uint32(id & (sendBit - 1)) }

// index returns the index of the connection.
func (id wrID) index() int { return int(id >> indexShift) }

// sameConn reports whether the two ids have the same connection index and generation.
func (id wrID) sameConn(other wrID) bool { return id>>generationShift == other>>generationShift }
