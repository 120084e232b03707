package reactor

// A connQueue is a queue of connections, first in first out. Its zero value is empty.
type connQueue struct {
	conns []*Conn
	head  int
}

func (q *connQueue) len() int { return len(q.conns) - q.head }

func (q *connQueue) push(c *Conn) { q.conns = append(q.conns, c) }

// pop takes the oldest connection of a queue that is not empty.
func (q *connQueue) pop() *Conn {
	c := q.conns[q.head]
	q.conns[q.head] = nil
	q.head++
	switch {
	case q.head == len(q.conns):
		q.conns, q.head = q.conns[:0], 0
	case q.head > len(q.conns)/2:
		// Half of the connections have gone since the last time, so each is moved
		// about once.
		n := copy(q.conns, q.conns[q.head:])
		clear(q.conns[n:])
		q.conns, q.head = q.conns[:n], 0
	}
	return c
}
