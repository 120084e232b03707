package reactor

import (
	"iter"

	"github.com/rdmaloop/rdmaloop/internal/slots"
)

// A connTable finds a connection by the id of its work requests. Its zero value is
// empty. The table gives each connection an index and a generation of more than 20 bits.
// The id of a work request contains the index and only the low 20 bits of the
// generation.
type connTable struct{ table slots.Table[*Conn] }

// add adds c to the table. It sets c.key to the index and generation of c; the ids of
// the work requests of c are made from this key. It returns false if there are already
// maxConns connections.
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
