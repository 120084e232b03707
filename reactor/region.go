package reactor

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A regionSet has the memory regions of Loop.Alloc and Conn.Alloc that are not closed
// yet. The loop closes these regions when it ends. The zero value is empty. Any goroutine
// may call the methods.
type regionSet struct {
	mu   sync.Mutex
	open map[*region]struct{}
}

// A region is a memory region that leaves its regionSet when it is closed. The
// application needs the address and the local key of the region for every one-sided
// operation. A region has copies of both, so that reading them does not call the
// provider.
type region struct {
	verbs.MR
	set  *regionSet
	addr uint64 // result of MR.Addr
	lkey uint32 // result of MR.LKey
}

// A discardableRegion is a region of a provider that can return pages of the memory to
// the system while the memory stays registered.
type discardableRegion struct {
	*region
	verbs.Discarder
}

// add adds mr to the set. It returns the region that the application uses instead of mr;
// that region is a verbs.Discarder if mr is one.
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
