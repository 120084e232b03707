package reactor

import "math/bits"

// maxLease is the size in bytes of the largest buffer that can be leased: 1 GiB.
const maxLease = 1 << 30

// sizeClasses has the buffers of a loopDevice that are larger than Config.MaxMessage. The
// size of a class is a power of two. Each buffer has a memory region of its own, so that
// its memory can be returned alone, and its remote key is valid for this buffer only.
type sizeClasses struct {
	template slab    // the classes are copies of template with other sizes
	slabs    []*slab // index: binary logarithm of the size; an element may be nil
	trimNext int     // index in slabs at which trim continues
}

// get returns a free buffer of at least n bytes, in state bufferLeased. The parameter n
// is at most maxLease.
func (s *sizeClasses) get(n int) (*Buffer, error) {
	class := bits.Len(uint(n - 1))
	for len(s.slabs) <= class {
		s.slabs = append(s.slabs, nil)
	}
	if s.slabs[class] == nil {
		of := s.template
		of.size, of.single = 1<<class, true
		s.slabs[class] = &of
	}
	return s.slabs[class].get()
}

// trim calls slab.trim for one class. It reports whether this round over all classes has
// further steps.
func (s *sizeClasses) trim() (more bool, err error) {
	for s.trimNext < len(s.slabs) {
		if of := s.slabs[s.trimNext]; of != nil {
			if more, err := of.trim(); more {
				return true, err
			}
		}
		s.trimNext++
	}
	s.trimNext = 0
	return false, nil
}

// bytes returns the total size of all buffers in bytes.
func (s *sizeClasses) bytes() (n uint64) {
	for _, of := range s.slabs {
		if of != nil {
			n += of.bytes()
		}
	}
	return n
}

// close releases all memory. No buffer may be in use by the device.
func (s *sizeClasses) close() (err error) {
	for _, of := range s.slabs {
		if of != nil {
			err = firstError(err, of.close())
		}
	}
	s.slabs = nil
	return err
}

// leaseSize returns a buffer of at least n bytes, in state bufferLeased.
func (d *loopDevice) leaseSize(n int) (*Buffer, error) {
	if n <= d.slab.size {
		return d.slab.get()
	}
	return d.classes.get(n)
}
