package reactor

// A regionUse is a Region as one loop uses it. Only the goroutine of the loop uses its
// fields, so the data path needs no locks.
type regionUse struct {
	region   *Region
	onDevice []deviceUse     // by domain.index, for the devices that the loop has used
	underWay int             // number of pieces of operations that are outstanding
	closed   bool            // the Region is closing, so operations are refused
	_        [cacheLine]byte // The uses of two loops share no cache line.
}

// A deviceUse is the registration of a region on one device, as a loop knows it.
type deviceUse struct {
	reg    *registration // nil if the loop has not used the device yet
	single bool          // the registration has one part
	lkey   uint32        // local key of the only part
	addr   uint64        // address of the only part
}

// on is Region.on for the goroutine of the loop.
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

// end ends the use of a piece. The last piece of a closed use tells the Region.
func (u *regionUse) end() {
	u.underWay--
	if u.closed && u.underWay == 0 {
		u.region.useClosed()
	}
}

// close makes the loop refuse operations with the region.
func (u *regionUse) close() {
	u.closed = true
	if u.underWay == 0 {
		u.region.useClosed()
	}
}
