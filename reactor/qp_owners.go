package reactor

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A qpOwners finds the connection of a queue pair, for the events of all devices of an
// engine. A peer can cause events, so an event must not cost time for each connection.
// Any goroutine may call the methods. The zero value is ready to use.
type qpOwners struct {
	mu    sync.Mutex
	conns map[verbs.QP]*Conn
}

// add records that qp belongs to c.
func (o *qpOwners) add(qp verbs.QP, c *Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns == nil {
		o.conns = make(map[verbs.QP]*Conn)
	}
	o.conns[qp] = c
}

// remove removes a queue pair that was closed. A map never becomes smaller, so remove
// drops the map with its last element.
func (o *qpOwners) remove(qp verbs.QP) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.conns, qp); len(o.conns) == 0 {
		o.conns = nil
	}
}

// of returns the connection of qp, or nil. The caller may use the connection only on the
// goroutine of Conn.loop.
func (o *qpOwners) of(qp verbs.QP) *Conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conns[qp]
}
