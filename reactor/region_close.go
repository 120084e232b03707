package reactor

import (
	"sync"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor/internal/memory"
)

// Close ends the use of the Region. Operations that begin later are refused with an error
// that matches ErrClosed. Close waits until the operations under way on all loops have
// completed. Then it ends the registrations, so that later operations of peers with the
// keys fail with verbs.StatusRemAccessErr. Memory of Engine.Alloc is unmapped.
//
// Close must not be called in a callback of the engine. If the engine belongs to a loop
// made with NewLoop, Close must not be called before the loop has ended. In both cases the
// loop would wait for itself. The error then matches verbs.ErrState, and the Region stays
// open. CloseFunc is allowed in both cases.
//
// A second call waits too, and returns the same result. If a device can not end a
// registration, its error is returned, and the end of the engine tries again.
func (r *Region) Close() error {
	if err := r.engine.checkWaitable("close region"); err != nil {
		return err
	}
	r.CloseFunc(nil)
	r.engine.awaitClosed(r.closed)
	return r.closeErr
}

// CloseFunc is Close without waiting, so callbacks may call it. When the Region has
// closed, done is called with the result, on a goroutine of its own. The function done
// may be nil.
func (r *Region) CloseFunc(done func(error)) {
	r.mu.Lock()
	first := !r.closing
	r.closing = true
	if done != nil {
		select {
		case <-r.closed:
			r.engine.run(func() { done(r.closeErr) })
		default:
			r.whenClosed = append(r.whenClosed, done)
		}
	}
	r.mu.Unlock()
	if first {
		r.engine.onEveryLoop(func(l *Loop) { r.uses[l.index].close() })
	}
}

// useClosed is called when a loop has closed its use. After the last one it releases the
// region, on a goroutine of its own, because ending a registration may take long.
func (r *Region) useClosed() {
	r.mu.Lock()
	r.openUses--
	last := r.openUses == 0
	r.mu.Unlock()
	switch {
	case !last:
	case r.engine.sim != nil:
		r.release() // Another goroutine would have other descriptors.
	default:
		go r.release()
	}
}

// release ends the registrations, unmaps the memory, and reports the result.
func (r *Region) release() {
	r.mu.Lock()
	r.endClosing()
	report := r.whenClosed
	r.whenClosed = nil
	r.mu.Unlock()
	for _, done := range report {
		done(r.closeErr)
	}
}

// cancel releases a region that no loop knows, because a device has refused it. If the
// engine ends at the same time, closeAll releases the region.
func (r *Region) cancel() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return nil
	}
	r.closing = true
	r.endClosing()
	return r.closeErr
}

// endClosing ends the registrations and sets the result of Close. After an error the
// region stays in the set of the engine. The caller holds the mutex.
func (r *Region) endClosing() {
	r.closeErr = operr.Wrap("close region", r.unregister())
	if r.closeErr == nil {
		r.engine.regions.remove(r)
	}
	close(r.closed)
}

// unregister ends the registrations and unmaps the memory. It ends the registration of
// the device that has allocated the memory last. The caller holds the mutex.
func (r *Region) unregister() (err error) {
	for _, allocated := range []bool{false, true} {
		for _, reg := range r.onDevice {
			if reg != nil && reg.Allocated == allocated && err == nil {
				err = reg.Close()
			}
		}
	}
	if err == nil && r.mapped != nil {
		err = memory.Unmap(r.mapped)
		r.mapped = nil
	}
	return err
}

// A regionSet has the regions of an engine that are not closed. Any goroutine may call
// the methods.
type regionSet struct {
	bytes atomic.Uint64 // total size of the regions in bytes

	mu     sync.Mutex
	open   map[*Region]struct{}
	closed bool // true after the end of the engine
}

// add adds a region. After the end of the engine it returns ErrClosed.
func (s *regionSet) add(r *Region) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.open == nil {
		s.open = make(map[*Region]struct{})
	}
	s.open[r] = struct{}{}
	s.bytes.Add(uint64(len(r.memory)))
	return nil
}

func (s *regionSet) remove(r *Region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, r)
	s.bytes.Add(-uint64(len(r.memory)))
}

// closeAll closes all regions, and returns the first error. All loops of the engine must
// have ended. closeAll tries again to end registrations that Close could not end.
func (s *regionSet) closeAll() (err error) {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for r := range open {
		r.CloseFunc(nil)
		r.engine.awaitClosed(r.closed)
		r.mu.Lock()
		again := r.unregister()
		if r.closeErr != nil && again == nil {
			s.remove(r)
		}
		err = firstError(err, again)
		r.mu.Unlock()
	}
	return err
}
