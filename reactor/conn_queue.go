package reactor

// A connQueue is a FIFO queue of connections. Its zero value is empty.
type connQueue struct {
	conns []*Conn
	head  int
}

// len returns the number of connections.
func (q *connQueue) len() int { return len(q.conns) - q.head }

// push adds a connection.
func (q *connQueue) push(c *Conn) { q.conns = append(q.conns, c) }

// pop removes and returns the oldest connection. The queue must not be empty.
func (q *connQueue) pop() *Conn {
	c := q.conns[q.head]
	q.conns[q.head] = nil
	q.head++
	switch {
	case q.head == len(q.conns):
		q.conns, q.head = q.conns[:0], 0
	case q.head > len(q.conns)/2:
		// More than half of the elements were popped. The others move to the front of the
		// slice. On average, a connection moves about once.
		n := copy(q.conns, q.conns[q.head:])
		clear(q.conns[n:])
		q.conns, q.head = q.conns[:n], 0
	}
	return c
}
