package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// A registration is a Region on one device. It has several parts if the Region is larger
// than verbs.DeviceAttr.MaxMRSize.
type registration struct {
	parts    []regionPart
	partSize int // size in bytes of each part; the last one may be smaller
	// allocated is true if the device has allocated the memory. The registration is then
	// the last one to be closed.
	allocated bool
}

// A regionPart is one memory region of a device. It has copies of the address and the
// keys, which operations need.
type regionPart struct {
	mr   verbs.MR
	addr uint64 // address of the memory region: MR.Addr
	lkey uint32 // local key of the memory region: MR.LKey
	rkey uint32 // remote key of the memory region: MR.RKey
}

func partOf(mr verbs.MR) regionPart {
	return regionPart{mr: mr, addr: mr.Addr(), lkey: mr.LKey(), rkey: mr.RKey()}
}

// largestPart returns the largest size of a memory region of a device: a multiple of the
// page size, unless the device allows less than one page.
func largestPart(dev verbs.Device) int {
	limit := int(min(dev.Attr().MaxMRSize, uint64(maxInt)))
	if limit > memoryPage {
		limit &^= memoryPage - 1
	}
	return limit
}

const (
	maxInt = int(^uint(0) >> 1)
	// memoryPage is a multiple of the page size on all systems.
	memoryPage = 1 << 16
)

// register registers a region on the device of a domain.
func register(d *domain, r *Region) (*registration, error) {
	return registerParts(d, r, largestPart(d.dev))
}

// registerParts registers a region in parts of the given size.
func registerParts(d *domain, r *Region, size int) (*registration, error) {
	registerPart := d.pd.Register
	if faults, ok := d.pd.(verbs.FaultRegisterer); ok && r.mayFault {
		registerPart = faults.RegisterFaulting
	}
	reg := &registration{partSize: size}
	for memory := r.memory; len(memory) > 0; {
		n := min(size, len(memory))
		mr, err := registerPart(memory[:n:n], r.access)
		if err != nil {
			return nil, firstError(err, reg.close())
		}
		reg.parts = append(reg.parts, partOf(mr))
		memory = memory[n:]
	}
	return reg, nil
}

// appendSGEs appends the scatter/gather elements for a part of the region to sges. The
// offset and the length must be inside the region.
func (r *registration) appendSGEs(sges []verbs.SGE, offset, length int) []verbs.SGE {
	for length > 0 {
		p, at, n := r.find(offset, length)
		sges = append(sges, verbs.SGE{Addr: p.addr + uint64(at), Length: uint32(n), LKey: p.lkey})
		offset, length = offset+n, length-n
	}
	return sges
}

// appendRemote appends address, key and length of a part of the region to the list. A
// part with several memory regions needs several elements.
func (r *registration) appendRemote(list []RemotePiece, offset, length int) []RemotePiece {
	for length > 0 {
		p, at, n := r.find(offset, length)
		list = append(list, RemotePiece{Remote: Remote{Addr: p.addr + uint64(at), RKey: p.rkey}, Length: n})
		offset, length = offset+n, length-n
	}
	return list
}

// find returns the part that has the byte at the offset, the offset in this part, and
// how many of the following bytes, at most length, the part has.
func (r *registration) find(offset, length int) (p *regionPart, at, n int) {
	p, at = &r.parts[offset/r.partSize], offset%r.partSize
	return p, at, min(length, r.partSize-at)
}

// close closes the parts, and returns the first error. Parts that could not be closed
// stay in the registration.
func (r *registration) close() (err error) {
	var open []regionPart
	for _, p := range r.parts {
		if closeErr := p.mr.Close(); closeErr != nil {
			open = append(open, p)
			err = firstError(err, closeErr)
		}
	}
	r.parts = open
	return err
}
