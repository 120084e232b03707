//go:build linux

package soft

// A shmConns finds the connections of a shmPeer by the numbers of their queue pairs.
type shmConns struct {
	byNum map[uint32]*shmConn
	// Cache of byNum: connections that were found before. The index is the result of
	// slotOf(). The length is a power of two.
	found []*shmConn
}

// minFound is the smallest length of shmConns.found. Arbitrary.
const minFound = 8

// slotOf returns the index in found for a queue pair number. The numbers of one shard
// differ by multiples of the number of shards. The multiplication spreads them; see
// Knuth, The Art of Computer Programming, vol. 3, 6.4, "multiplicative hashing".
func (t *shmConns) slotOf(num uint32) uint32 {
	return num * 0x9e3779b1 >> 16 & uint32(len(t.found)-1)
}

// find returns the connection of a queue pair, or nil.
func (t *shmConns) find(num uint32) *shmConn {
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

func (t *shmConns) len() int { return len(t.byNum) }

func (t *shmConns) add(c *shmConn) {
	if t.byNum == nil {
		t.byNum = make(map[uint32]*shmConn)
	}
	t.byNum[c.q.Num()] = c
	if 2*len(t.byNum) > len(t.found) && len(t.found) < 1<<16 {
		t.found = make([]*shmConn, max(minFound, 2*len(t.found)))
	}
}

func (t *shmConns) remove(c *shmConn) {
	delete(t.byNum, c.q.Num())
	if len(t.found) > 0 {
		t.found[t.slotOf(c.q.Num())] = nil
	}
}
