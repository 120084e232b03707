package reactor

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/operr"
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
// that needs the registration on this device makes it: Remote, RemoteOn, or an operation
// of a connection. This call then takes longer, and returns the error if the device can
// not register the memory.
type Region struct {
	engine *Engine
	memory []byte
	access verbs.Access
	uses   []regionUse // uses of the region by the loops; the index is Loop.Index
	mapped []byte      // memory that release unmaps; nil if there is none
	// mayFault is true if pages of the memory may be missing: see verbs.FaultRegisterer.
	mayFault bool

	mu sync.Mutex // guards the fields below
	// onDevice has the registrations of the region, one for each device that the engine has
	// used. Its index is domain.index. An element may be nil.
	onDevice []*registration
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

// Discard returns pages of the memory to the system, as verbs.Discarder does. The error
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
		if reg != nil && reg.allocated {
			if d, ok := reg.parts[0].mr.(verbs.Discarder); ok {
				return d.Discard(offset, length)
			}
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
func (r *Region) on(d *domain) (*registration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return nil, ErrClosed
	}
	if reg := r.existing(d); reg != nil {
		return reg, nil
	}
	reg, err := register(d, r)
	if err != nil {
		return nil, err
	}
	r.store(d, reg)
	return reg, nil
}

// existing returns the registration for the device of a domain, or nil. The caller holds
// the mutex.
func (r *Region) existing(d *domain) *registration {
	if d.index >= len(r.onDevice) {
		return nil
	}
	return r.onDevice[d.index]
}

// store stores the registration for the device of a domain. The caller holds the mutex.
func (r *Region) store(d *domain, reg *registration) {
	for len(r.onDevice) <= d.index {
		r.onDevice = append(r.onDevice, nil)
	}
	r.onDevice[d.index] = reg
}
