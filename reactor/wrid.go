package reactor

// A wrID is the id of a work request. From the most significant bit, it has the
// connection's index in connTable (20 bits), its generation (20 bits), one bit for send
// requests, and the request's slot (23 bits). The generation distinguishes late
// completions of an earlier connection with the index. A request of a shared receive
// queue has the buffer's index in slab.all as its id.
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
