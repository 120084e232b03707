package reactor

import "iter"

// A wrID is the id of a work request. From the top: 20 bits index and 20 bits
// generation of its connection, one bit that is set for sends, 23 bits slot of
// the queue it was posted to, or for a shared receive queue the index of the
// buffer. The generation keeps a late completion from reaching a stranger.
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

func (id wrID) send() bool         { return id&sendBit != 0 }
func (id wrID) slot() uint32       { return uint32(id & (sendBit - 1)) }
func (id wrID) index() int         { return int(id >> indexShift) }
func (id wrID) generation() uint32 { return uint32(id>>generationShift) & generationMask }

// connTable finds a connection by the id of its work requests.
type connTable struct {
	slots []connSlot
	free  []int
	count int
}

type connSlot struct {
	conn       *Conn // nil: free
	generation uint32
}

// add takes c in and returns the id that its work requests are made from.
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

// get returns the connection, or nil when it is gone.
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

// remove lets no id find the connection any more.
func (t *connTable) remove(key wrID) {
	if t.get(key) == nil {
		return
	}
	t.slots[key.index()].conn = nil
	t.free = append(t.free, key.index())
	t.count--
}

// all goes over the connections; they may be removed meanwhile.
func (t *connTable) all() iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for i := range t.slots {
			if c := t.slots[i].conn; c != nil && !yield(c) {
				return
			}
		}
	}
}
