//go:build linux

package shmpath

// A conns finds the connections of a peer by the numbers of their queue pairs.
type conns struct {
	byNum map[uint32]*Conn
	// Cache of byNum: connections that were found before. The index is the result of
	// slotOf(). The length is a power of two.
	found []*Conn
}

// minFound is the smallest length of conns.found. Arbitrary.
const minFound = 8

// slotOf returns the index in found for a queue pair number. The numbers of one shard
// differ by multiples of the number of shards. The multiplication spreads them; see
// Knuth, The Art of Computer Programming, vol. 3, 6.4, "multiplicative hashing".
func (t *conns) slotOf(num uint32) uint32 {
	return num * 0x9e3779b1 >> 16 & uint32(len(t.found)-1)
}

// find returns the connection of a queue pair, or nil.
func (t *conns) find(num uint32) *Conn {
	if len(t.found) == 0 {
		return nil
	}
	at := t.slotOf(num)
	if c := t.found[at]; c != nil && c.q.Num() == num {
		return c
	}
	c := t.byNum[num]
	if c != nil {
		t.found[at] = c
	}
	return c
}

func (t *conns) len() int { return len(t.byNum) }

func (t *conns) add(c *Conn) {
	if t.byNum == nil {
		t.byNum = make(map[uint32]*Conn)
	}
	t.byNum[c.q.Num()] = c
	if 2*len(t.byNum) > len(t.found) && len(t.found) < 1<<16 {
		t.found = make([]*Conn, max(minFound, 2*len(t.found)))
	}
}

func (t *conns) remove(c *Conn) {
	delete(t.byNum, c.q.Num())
	if len(t.found) > 0 {
		t.found[t.slotOf(c.q.Num())] = nil
	}
}
