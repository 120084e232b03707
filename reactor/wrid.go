package reactor

// A wrID is the id of a work request. For a shared receive queue it is the buffer's
// index in slab.all. For other queues it has these parts, from the most significant bit:
//
//   - 20 bits: the connection's index in connTable.
//   - 20 bits: the index's generation. It differs from that of earlier connections with
//     this index, so their late completions are recognized.
//   - 1 bit: set for send requests, and for receives without a buffer.
//   - 23 bits: the slot of the request, or emptyRecvBit.
type wrID uint64

const (
	slotBits       = 23
	generationBits = 20
	maxConns       = 1 << 20

	sendBit wrID = 1 << slotBits
	// A receive without a buffer has both sendBit and emptyRecvBit. A send request never has
	// emptyRecvBit, because its slot is less than 2*maxQueue.
	emptyRecvBit    = sendBit >> 1
	generationShift = slotBits + 1
	indexShift      = generationShift + generationBits
	generationMask  = 1<<generationBits - 1
)

// send reports whether the id belongs to a send request, or to a receive without a
// buffer.
func (id wrID) send() bool { return id&sendBit != 0 }

// emptyRecv reports whether an id with sendBit belongs to a receive without a buffer.
func (id wrID) emptyRecv() bool { return id&emptyRecvBit != 0 }

// slot returns the slot of the request in its queue.
func (id wrID) slot() uint32 { return uint32(id & (sendBit - 1)) }

// index returns the index of the connection.
func (id wrID) index() int { return int(id >> indexShift) }

// sameConn reports whether the two ids have the same connection index and generation.
func (id wrID) sameConn(other wrID) bool { return id>>generationShift == other>>generationShift }
