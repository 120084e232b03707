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
