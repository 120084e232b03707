package reactor

import (
	"iter"

	"github.com/rdmaloop/rdmaloop/internal/slots"
)

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
