// Package memorytest has devices for tests, whose memory is on the Go heap.
package memorytest

import "github.com/rdmaloop/rdmaloop/verbs"

// A Device has protection domains only, and regions of at most 1 MiB.
type Device struct {
	verbs.Device
	Refuse error // result of AllocPD
	PDs    []*PD
}

// AllocPD returns a new element of PDs.
func (d *Device) AllocPD() (verbs.PD, error) {
	if d.Refuse != nil {
		return nil, d.Refuse
	}
	d.PDs = append(d.PDs, &PD{})
	return d.PDs[len(d.PDs)-1], nil
}

// Attr returns attributes of which only MaxMRSize is set.
func (d *Device) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{MaxMRSize: 1 << 20} }

// A PD is a protection domain. Its zero value has no regions.
type PD struct {
	verbs.PD
	Refuse error // error that Alloc, Close, and Close of a region return
	Open   int   // number of regions that are open
	Closed bool
}

// Close reports Refuse.
func (p *PD) Close() error {
	p.Closed = p.Refuse == nil
	return p.Refuse
}

// Alloc returns an *MR.
func (p *PD) Alloc(attr *verbs.AllocAttr) (verbs.MR, error) {
	if p.Refuse != nil {
		return nil, p.Refuse
	}
	p.Open++
	return &MR{pd: p, memory: make([]byte, attr.Size)}, nil
}

// Register returns an *MR.
func (p *PD) Register(b []byte, _ verbs.Access) (verbs.MR, error) {
	p.Open++
	return &MR{pd: p, memory: b}, nil
}

// A LimitedPD registers a limited number of regions.
type LimitedPD struct {
	*PD
	Left int
}

// Register returns an *MR, or verbs.ErrNoResources.
func (p *LimitedPD) Register(b []byte, access verbs.Access) (verbs.MR, error) {
	if p.Left == 0 {
		return nil, verbs.ErrNoResources
	}
	p.Left--
	return p.PD.Register(b, access)
}

// An MR is a region of a PD.
type MR struct {
	verbs.MR
	pd     *PD
	memory []byte
}

// RKey returns 8.
func (m *MR) RKey() uint32 { return 8 }

// Bytes returns the memory.
func (m *MR) Bytes() []byte { return m.memory }

// Addr returns 1 MiB.
func (m *MR) Addr() uint64 { return 1 << 20 }

// LKey returns 7.
func (m *MR) LKey() uint32 { return 7 }

// Discard returns verbs.ErrNotSupported.
func (m *MR) Discard(int, int) error { return verbs.ErrNotSupported }

// Close reports PD.Refuse.
func (m *MR) Close() error {
	if m.pd.Refuse == nil {
		m.pd.Open--
	}
	return m.pd.Refuse
}
