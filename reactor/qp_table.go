package reactor

// A qpTable finds the connection of a queue pair number. It is a hash table with linear
// probing, in which a search usually reads one cache line. The zero qpTable is empty.
type qpTable struct {
	entries []qpEntry // places of the table; their number is 0 or a power of two
	shift   uint      // 32 minus the binary logarithm of len(entries)
	count   int       // number of connections; at most half of len(entries)
}

// A qpEntry is one place of a qpTable. It is empty if conn is nil.
type qpEntry struct {
	qpn  uint32
	conn *Conn
}

// minQPEntries is the smallest length of a qpTable that is not empty. Arbitrary.
const minQPEntries = 16

// home returns the index at which a search for qpn begins. The factor is 2^32 divided by
// the golden ratio. It spreads consecutive numbers over the table.
func (t *qpTable) home(qpn uint32) uint32 { return qpn * 0x9e3779b9 >> t.shift }

// find returns the index of the entry with qpn, or of the empty entry that ends the
// search. The table must have entries.
func (t *qpTable) find(qpn uint32) uint32 {
	mask := uint32(len(t.entries) - 1)
	i := t.home(qpn)
	for t.entries[i].conn != nil && t.entries[i].qpn != qpn {
		i = (i + 1) & mask
	}
	return i
}

// get returns the connection with the queue pair number qpn, or nil.
func (t *qpTable) get(qpn uint32) *Conn {
	if len(t.entries) == 0 {
		return nil
	}
	return t.entries[t.find(qpn)].conn
}

// put adds a connection. A connection with the same number is replaced.
func (t *qpTable) put(qpn uint32, c *Conn) {
	if 2*(t.count+1) > len(t.entries) {
		t.resize(max(minQPEntries, 2*len(t.entries)))
	}
	e := &t.entries[t.find(qpn)]
	if e.conn == nil {
		t.count++
	}
	e.qpn, e.conn = qpn, c
}

// remove removes the connection with the number qpn, if there is one. If the table is
// then almost empty, it becomes smaller.
func (t *qpTable) remove(qpn uint32) {
	if t.get(qpn) == nil {
		return
	}
	mask := uint32(len(t.entries) - 1)
	free := t.find(qpn)
	t.entries[free] = qpEntry{}
	t.count--
	// A search ends at an empty entry, and this entry is empty now. So a search might not
	// reach some later entries. The loop moves such an entry to the empty place.
	for i := (free + 1) & mask; t.entries[i].conn != nil; i = (i + 1) & mask {
		if (i-t.home(t.entries[i].qpn))&mask >= (i-free)&mask {
			t.entries[free], t.entries[i] = t.entries[i], qpEntry{}
			free = i
		}
	}
	if len(t.entries) > minQPEntries && 8*t.count < len(t.entries) {
		t.resize(len(t.entries) / 2)
	}
}

// resize changes the number of entries, a power of two.
func (t *qpTable) resize(size int) {
	old := t.entries
	t.entries, t.shift = make([]qpEntry, size), 32
	for n := size; n > 1; n /= 2 {
		t.shift--
	}
	for _, e := range old {
		if e.conn != nil {
			t.entries[t.find(e.qpn)] = e
		}
	}
}
