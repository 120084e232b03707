package memory

import (
	"math"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Registration is memory on one device. It has several parts if the memory is larger
// than verbs.DeviceAttr.MaxMRSize.
type Registration struct {
	Parts []Part
	// Allocated is true if the device has allocated the memory. The registration is then
	// the last one to be closed.
	Allocated bool
	partSize  int // size in bytes of each part; the last one may be smaller
}

// A Part is one memory region of a device. It has copies of the address and the keys,
// which operations need.
type Part struct {
	MR   verbs.MR
	Addr uint64 // address of the memory region: MR.Addr
	LKey uint32 // local key of the memory region: MR.LKey
	RKey uint32 // remote key of the memory region: MR.RKey
}

func partOf(mr verbs.MR) Part {
	return Part{MR: mr, Addr: mr.Addr(), LKey: mr.LKey(), RKey: mr.RKey()}
}

// LargestPart returns the largest size of a memory region of a device: a multiple of the
// page size, unless the device allows less than one page.
func LargestPart(dev verbs.Device) int {
	limit := int(min(dev.Attr().MaxMRSize, math.MaxInt))
	if limit > memoryPage {
		limit &^= memoryPage - 1
	}
	return limit
}

// memoryPage is a multiple of the page size on all systems.
const memoryPage = 1 << 16

// Register registers memory on the device of a domain. The parameter mayFault is true if
// pages of the memory may be missing: see verbs.PD.RegisterFaulting.
func Register(d *Domain, memory []byte, access verbs.Access, mayFault bool) (*Registration, error) {
	return registerParts(d, memory, access, mayFault, LargestPart(d.Dev))
}

// registerParts registers memory in parts of the given size.
func registerParts(d *Domain, memory []byte, access verbs.Access, mayFault bool, size int) (*Registration, error) {
	registerPart := d.PD.Register
	if mayFault {
		registerPart = d.PD.RegisterFaulting
	}
	reg := &Registration{partSize: size}
	for len(memory) > 0 {
		n := min(size, len(memory))
		mr, err := registerPart(memory[:n:n], access)
		if err != nil {
			_ = reg.Close() // The first error counts.
			return nil, err
		}
		reg.Parts = append(reg.Parts, partOf(mr))
		memory = memory[n:]
	}
	return reg, nil
}

// OfAllocated returns the registration of memory that the device has allocated.
func OfAllocated(mr verbs.MR) *Registration {
	return &Registration{Parts: []Part{partOf(mr)}, Allocated: true, partSize: len(mr.Bytes())}
}

// AppendSGEs appends the scatter/gather elements for a part of the memory to sges. The
// offset and the length must be inside the memory.
func (r *Registration) AppendSGEs(sges []verbs.SGE, offset, length int) []verbs.SGE {
	for length > 0 {
		p, at, n := r.Find(offset, length)
		sges = append(sges, verbs.SGE{Addr: p.Addr + uint64(at), Length: uint32(n), LKey: p.LKey})
		offset, length = offset+n, length-n
	}
	return sges
}

// Find returns the part that has the byte at the offset, the offset in this part, and
// how many of the following bytes, at most length, the part has.
func (r *Registration) Find(offset, length int) (p *Part, at, n int) {
	p, at = &r.Parts[offset/r.partSize], offset%r.partSize
	return p, at, min(length, r.partSize-at)
}

// Close closes the parts, and returns the first error. Parts that could not be closed
// stay in the registration.
func (r *Registration) Close() (err error) {
	var open []Part
	for _, p := range r.Parts {
		if closeErr := p.MR.Close(); closeErr != nil {
			open = append(open, p)
			if err == nil {
				err = closeErr
			}
		}
	}
	r.Parts = open
	return err
}
