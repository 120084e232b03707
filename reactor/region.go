package reactor

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor/internal/memory"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Region is registered memory of an engine: see Engine.Alloc and Engine.Register. The
// connections of all loops and devices can use it, in one-sided operations of this side
// and of their peers. Any goroutine may call the methods.
//
// A Region is registered on each device that the engine uses. If the Region is larger
// than verbs.DeviceAttr.MaxMRSize, its registration on the device consists of several
// memory regions. Alloc and Register make the registrations on the devices that the
// engine uses already. If the engine begins to use another device later, the first call
// that needs the registration on this device makes it: Remote, or an operation
// of a connection. This call then takes longer, and returns the error if the device can
// not register the memory.
type Region struct {
	engine *Engine
	memory []byte
	access verbs.Access
	uses   []regionUse // uses of the region by the loops; the index is Loop.Index
	mapped []byte      // memory that release unmaps; nil if there is none
	// mayFault is true if pages of the memory may be missing: see verbs.PD.RegisterFaulting.
	mayFault bool

	mu sync.Mutex // guards the fields below
	// onDevice has the registrations of the region, one for each device that the engine has
	// used. Its index is domain.Index. An element may be nil.
	onDevice []*memory.Registration
	// closing is true after Close, after CloseFunc, and after the end of the engine.
	closing bool
	// openUses is the number of elements of uses that are not closed yet.
	openUses   int
	whenClosed []func(error) // functions to call when the Region has closed; see CloseFunc
	closed     chan struct{} // closed when all registrations have ended
	closeErr   error         // result of Close, valid when the registrations have ended
}

// newRegion returns a Region without registrations.
func newRegion(e *Engine, memory []byte, access verbs.Access) *Region {
	r := &Region{
		engine: e, memory: memory, access: access,
		uses: make([]regionUse, len(e.loops)), openUses: len(e.loops),
		closed: make(chan struct{}),
	}
	for i := range r.uses {
		r.uses[i].region, r.uses[i].loop = r, e.loops[i]
	}
	return r
}

// Bytes returns the memory of the Region. If the engine has allocated the memory, the
// slice must not be used after Close or after the end of the engine.
func (r *Region) Bytes() []byte { return r.memory }

// Access returns the access rights.
func (r *Region) Access() verbs.Access { return r.access }

// Discard returns pages of the memory to the system, as verbs.MR.Discard does. The error
// is a *verbs.FeatureError for memory that the application has registered, and for
// memory that a device has pinned.
func (r *Region) Discard(offset, length int) error {
	const op = "discard memory"
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return operr.Wrap(op, ErrClosed)
	}
	for _, reg := range r.onDevice {
		if reg != nil && reg.Allocated {
			return reg.Parts[0].MR.Discard(offset, length)
		}
	}
	return operr.Wrap(op, &verbs.FeatureError{Feature: op, Reason: errNotDiscardable})
}

// checkRange returns a *verbs.ParamError if the region does not have these bytes.
func (r *Region) checkRange(offset, length int) error {
	switch {
	case offset < 0 || offset > len(r.memory):
		return &verbs.ParamError{Field: "offset", Value: int64(offset), Limit: int64(len(r.memory)), Reason: "outside the region"}
	case length < 0 || length > len(r.memory)-offset:
		return &verbs.ParamError{Field: "length", Value: int64(length), Limit: int64(len(r.memory) - offset), Reason: "the end is outside the region"}
	}
	return nil
}

// on returns the registration for the device of a domain, and makes it if there is none.
func (r *Region) on(d *memory.Domain) (*memory.Registration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return nil, ErrClosed
	}
	if reg := r.existing(d); reg != nil {
		return reg, nil
	}
	reg, err := memory.Register(d, r.memory, r.access, r.mayFault)
	if err != nil {
		return nil, err
	}
	r.store(d, reg)
	return reg, nil
}

// existing returns the registration for the device of a domain, or nil. The caller holds
// the mutex.
func (r *Region) existing(d *memory.Domain) *memory.Registration {
	if d.Index >= len(r.onDevice) {
		return nil
	}
	return r.onDevice[d.Index]
}

// store stores the registration for the device of a domain. The caller holds the mutex.
func (r *Region) store(d *memory.Domain, reg *memory.Registration) {
	for len(r.onDevice) <= d.Index {
		r.onDevice = append(r.onDevice, nil)
	}
	r.onDevice[d.Index] = reg
}

// A regionUse is a Region as one loop uses it. Only the goroutine of the loop uses its
// fields, so the data path needs no locks.
type regionUse struct {
	region   *Region
	loop     *Loop
	onDevice []deviceUse // registrations that the loop has used; the index is domain.Index
	underWay int         // number of pieces of outstanding operations and of windows
	closed   bool        // true if the Region is closing and operations are refused
	_        [64]byte    // keeps the uses of two loops in different cache lines
}

// A deviceUse is the registration of a region on one device, as a loop knows it.
type deviceUse struct {
	reg    *memory.Registration // registration; nil if the loop has not used the device yet
	single bool                 // true if the registration has exactly one memory region
	lkey   uint32               // local key of this memory region, if single is true
	addr   uint64               // address of this memory region, if single is true
}

// on returns the registration for the device of a domain, as Region.on does. It needs no
// lock if the loop has used the device before.
func (u *regionUse) on(d *memory.Domain) (*memory.Registration, error) {
	if d.Index < len(u.onDevice) && u.onDevice[d.Index].reg != nil {
		return u.onDevice[d.Index].reg, nil
	}
	reg, err := u.region.on(d)
	if err != nil {
		return nil, err
	}
	for len(u.onDevice) <= d.Index {
		u.onDevice = append(u.onDevice, deviceUse{})
	}
	u.onDevice[d.Index] = deviceUse{reg: reg, single: len(reg.Parts) == 1, lkey: reg.Parts[0].LKey, addr: reg.Parts[0].Addr}
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
		u.loop.recordError(c.sends.windows.closeOf(u))
		c.confirmQuiet()
	}
}

// confirmQuiet posts a probe if the last operations have no completion of their own. If a
// probe is outstanding, its completion calls confirmQuiet again.
func (c *Conn) confirmQuiet() {
	if c.state == stateOpen && c.sends.flow.unsignaled > 0 && c.sends.flow.probes == 0 {
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

// begin counts a use of a region, until its request ends it. The first use of a request is
// stored in *first. Further ones are added to the queue, and the result is true.
func (q *useQueue) begin(first **regionUse, u *regionUse) (added bool) {
	u.underWay++
	if *first == nil {
		*first = u
		return false
	}
	q.push(u)
	return true
}

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

func (q *useQueue) grow() {
	ring := make([]*regionUse, max(initialRequests, 2*len(q.ring)))
	for i := q.head; i != q.tail; i++ {
		ring[i&uint32(len(ring)-1)] = q.ring[i&uint32(len(q.ring)-1)]
	}
	q.ring = ring
}
