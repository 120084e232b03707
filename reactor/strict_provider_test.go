package reactor_test

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A strictProvider is a provider whose device enforces its limits MaxCQ and MaxCQE.
type strictProvider struct {
	cm.Provider
	device   *strictDevice
	plainQPs bool // true if queue pairs are plainQPs, and know no verbs.WC.Time

	mu  sync.Mutex
	ids map[cm.TransportID]*strictID
}

// newStrictProvider wraps the first device of p. The functions attr() and caps(), if not
// nil, change the reported limits and abilities.
func newStrictProvider(p cm.Provider, attr func(*verbs.DeviceAttr), caps func(*verbs.Caps)) (*strictProvider, error) {
	devices, err := p.Devices()
	if err != nil {
		return nil, err
	}
	limited := limitedProvider{Provider: p, attr: attr, caps: caps}
	return &strictProvider{
		Provider: p,
		device:   &strictDevice{limitedDevice: limitedDevice{devices[0], limited}},
		ids:      make(map[cm.TransportID]*strictID),
	}, nil
}

func (p *strictProvider) Devices() ([]verbs.Device, error) { return []verbs.Device{p.device}, nil }

func (p *strictProvider) OpenChannel() (cm.TransportChannel, error) {
	ch, err := p.Provider.OpenChannel()
	return &strictChannel{ch, p}, err
}

// wrapID returns the strictID that wraps id, or nil if id is nil.
func (p *strictProvider) wrapID(id cm.TransportID) cm.TransportID {
	if id == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ids[id] == nil {
		p.ids[id] = &strictID{id, p}
	}
	return p.ids[id]
}

// A strictDevice enforces the limits of a device for CQs, and counts the open ones.
type strictDevice struct {
	limitedDevice
	mu       sync.Mutex
	cqs      int   // number of open completion queues
	asyncErr error // error that NextAsync returns, unless it is nil
	// dropAsync, if not nil, gets all asynchronous events, and NextAsync returns none.
	dropAsync func(verbs.AsyncEvent)
}

func (d *strictDevice) NextAsync(ev *verbs.AsyncEvent) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asyncErr != nil {
		return false, d.asyncErr
	}
	ok, err := d.limitedDevice.NextAsync(ev)
	for ok && d.dropAsync != nil {
		d.dropAsync(*ev)
		ok, err = d.limitedDevice.NextAsync(ev)
	}
	return ok, err
}

// failAsync makes later calls of NextAsync return err.
func (d *strictDevice) failAsync(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asyncErr = err
}

func (d *strictDevice) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	limits := d.Attr()
	if attr.Depth > limits.MaxCQE {
		return nil, &verbs.ParamError{Field: "CQ depth", Value: int64(attr.Depth), Limit: int64(limits.MaxCQE)}
	}
	if d.cqs == limits.MaxCQ {
		return nil, &verbs.ParamError{Field: "completion queues", Value: int64(d.cqs) + 1, Limit: int64(limits.MaxCQ)}
	}
	cq, err := d.limitedDevice.CreateCQ(attr)
	if err != nil {
		return nil, err
	}
	d.cqs++
	return &strictCQ{cq, d}, nil
}

func (d *strictDevice) openCQs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cqs
}

func (d *strictDevice) AllocPD() (verbs.PD, error) {
	pd, err := d.limitedDevice.AllocPD()
	return strictPD{pd, d}, err
}

type strictPD struct {
	verbs.PD
	device *strictDevice
}

func (p strictPD) Device() verbs.Device { return p.device }

func (p strictPD) CreateSRQ(attr *verbs.SRQAttr) (verbs.SRQ, error) {
	own := *attr
	own.CQ = attr.CQ.(*strictCQ).CQ
	return p.PD.CreateSRQ(&own)
}

type strictCQ struct {
	verbs.CQ
	device *strictDevice
}

func (q *strictCQ) Close() error {
	err := q.CQ.Close()
	if err == nil {
		q.device.mu.Lock()
		defer q.device.mu.Unlock()
		q.device.cqs--
	}
	return err
}

type strictChannel struct {
	cm.TransportChannel
	p *strictProvider
}

func (ch *strictChannel) Next(ev *cm.TransportEvent) (bool, error) {
	ok, err := ch.TransportChannel.Next(ev)
	if ok {
		ev.ID, ev.Listener = ch.p.wrapID(ev.ID), ch.p.wrapID(ev.Listener)
	}
	return ok, err
}

func (ch *strictChannel) NewID(ps cm.PortSpace) (cm.TransportID, error) {
	id, err := ch.TransportChannel.NewID(ps)
	return ch.p.wrapID(id), err
}

type strictID struct {
	cm.TransportID
	p *strictProvider
}

func (id *strictID) Device() verbs.Device {
	if id.TransportID.Device() == nil {
		return nil
	}
	return id.p.device
}

// CreateQP calls CreateQP of the wrapped ID with the wrapped PD and CQs.
func (id *strictID) CreateQP(pd verbs.PD, attr *verbs.QPInitAttr) (verbs.QP, error) {
	own := *attr
	own.SendCQ, own.RecvCQ = attr.SendCQ.(*strictCQ).CQ, attr.RecvCQ.(*strictCQ).CQ
	own.RecvTime = attr.RecvTime && !id.p.plainQPs
	qp, err := id.TransportID.CreateQP(pd.(strictPD).PD, &own)
	if id.p.plainQPs && err == nil {
		return plainQP{qp}, nil
	}
	return qp, err
}

// A plainQP is a queue pair without optional abilities.
type plainQP struct{ verbs.QP }

func (plainQP) SendInline(uint64, verbs.SendFlags, []byte) bool { return false }
func (plainQP) SetRecvMode(verbs.RecvMode) error                { return verbs.ErrNotSupported }

func (id *strictID) Migrate(to cm.TransportChannel) error {
	return id.TransportID.Migrate(to.(*strictChannel).TransportChannel)
}

func (id *strictID) Destroy() error {
	id.p.mu.Lock()
	delete(id.p.ids, id.TransportID)
	id.p.mu.Unlock()
	return id.TransportID.Destroy()
}
