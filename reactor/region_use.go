package reactor

// A regionUse is a Region as one loop uses it. Only the goroutine of the loop uses its
// fields, so the data path needs no locks.
type regionUse struct {
	region   *Region
	loop     *Loop
	onDevice []deviceUse     // registrations that the loop has used; the index is domain.index
	underWay int             // number of pieces of outstanding operations and of windows
	closed   bool            // true if the Region is closing and operations are refused
	_        [cacheLine]byte // keeps the uses of two loops in different cache lines
}

// A deviceUse is the registration of a region on one device, as a loop knows it.
type deviceUse struct {
	reg    *registration // registration; nil if the loop has not used the device yet
	single bool          // true if the registration has exactly one memory region
	lkey   uint32        // local key of this memory region, if single is true
	addr   uint64        // address of this memory region, if single is true
}

// on returns the registration for the device of a domain, as Region.on does. It needs no
// lock if the loop has used the device before.
func (u *regionUse) on(d *domain) (*registration, error) {
	if d.index < len(u.onDevice) && u.onDevice[d.index].reg != nil {
		return u.onDevice[d.index].reg, nil
	}
	reg, err := u.region.on(d)
	if err != nil {
		return nil, err
	}
	for len(u.onDevice) <= d.index {
		u.onDevice = append(u.onDevice, deviceUse{})
	}
	u.onDevice[d.index] = deviceUse{reg: reg, single: len(reg.parts) == 1, lkey: reg.parts[0].lkey, addr: reg.parts[0].addr}
	return reg, nil
}

// end is called when an operation no longer uses a piece. If the use is closed and this
// was its last piece, end calls Region.useClosed.
func (u *regionUse) end() {
	u.underWay--
	if u.closed && u.underWay == 0 {
		u.loop.closingUses--
		u.region.useClosed()
	}
}

// close makes the loop refuse operations with the region, and closes its windows. If
// outstanding operations have no completion of their own, close makes sure that a later
// completion confirms them.
func (u *regionUse) close() {
	u.closed = true
	if u.underWay == 0 {
		u.region.useClosed()
		return
	}
	u.loop.closingUses++
	for c := range u.loop.conns.all() {
		c.closeWindowsOf(u)
		c.confirmQuiet()
	}
}

// confirmQuiet posts a probe if the last operations have no completion of their own. If a
// probe is outstanding, its completion calls confirmQuiet again.
func (c *Conn) confirmQuiet() {
	if c.state == stateOpen && c.flow.unsignaled > 0 && c.flow.probes == 0 {
		c.probe()
	}
}

// A useQueue has the regionUses of outstanding requests, in the order of the requests. It
// is a ring. Its zero value is empty.
type useQueue struct {
	ring []*regionUse // places for the uses; their number is 0 or a power of two
	head uint32       // running number of the oldest use, modulo 2^32
	tail uint32       // running number of the next use that is added, modulo 2^32
}

// push adds a use.
func (q *useQueue) push(u *regionUse) {
	if q.tail-q.head == uint32(len(q.ring)) {
		q.grow()
	}
	q.ring[q.tail&uint32(len(q.ring)-1)] = u
	q.tail++
}

// end removes the n oldest uses, and ends them.
func (q *useQueue) end(n int) {
	for range n {
		at := &q.ring[q.head&uint32(len(q.ring)-1)]
		u := *at
		*at = nil
		q.head++
		u.end()
	}
}

// grow doubles the ring.
func (q *useQueue) grow() {
	ring := make([]*regionUse, max(initialRequests, 2*len(q.ring)))
	for i := q.head; i != q.tail; i++ {
		ring[i&uint32(len(ring)-1)] = q.ring[i&uint32(len(q.ring)-1)]
	}
	q.ring = ring
}
