package reactor

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A regionSet has the open memory regions of Loop.Alloc and Conn.Alloc. The loop closes
// them when it ends. Any goroutine may call the methods.
type regionSet struct {
	mu   sync.Mutex
	open map[*region]struct{}
}

// A region is a memory region that leaves its regionSet when it is closed. It has copies
// of the address and the local key, which every operation needs.
type region struct {
	verbs.MR
	set  *regionSet
	addr uint64 // result of MR.Addr
	lkey uint32 // result of MR.LKey
}

// A discardableRegion is a region that can return pages to the system while it stays
// registered.
type discardableRegion struct {
	*region
	verbs.Discarder
}

// add adds mr to the set, and returns the region for the application. That region is a
// verbs.Discarder if mr is one.
func (s *regionSet) add(mr verbs.MR) verbs.MR {
	r := &region{MR: mr, set: s, addr: mr.Addr(), lkey: mr.LKey()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*region]struct{})
	}
	s.open[r] = struct{}{}
	if d, ok := mr.(verbs.Discarder); ok {
		return discardableRegion{r, d}
	}
	return r
}

// closeAll closes all regions of the set, and returns the first error.
func (s *regionSet) closeAll() (err error) {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for r := range open {
		err = firstError(err, r.MR.Close())
	}
	return err
}

// remove removes r, if the set has r.
func (s *regionSet) remove(r *region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, r)
}

// Addr implements verbs.MR.
func (r *region) Addr() uint64 { return r.addr }

// LKey implements verbs.MR.
func (r *region) LKey() uint32 { return r.lkey }

// Close implements verbs.MR. If it fails, the region stays in the set, and the loop tries
// again when it ends.
func (r *region) Close() error {
	if err := r.MR.Close(); err != nil {
		return err
	}
	r.set.remove(r)
	return nil
}
