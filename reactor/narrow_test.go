package reactor_test

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// narrow is a provider whose device enforces smaller limits for completion queues:
// CreateCQ refuses a CQ that is deeper than MaxCQE, and more than MaxCQ of them.
type narrow struct {
	cm.Provider
	device *narrowDevice

	mu  sync.Mutex
	ids map[cm.TransportID]*narrowID
}

// newNarrow makes a provider of one device, which wraps the first device of p.
func newNarrow(p cm.Provider, attr func(*verbs.DeviceAttr), caps func(*verbs.Caps)) (*narrow, error) {
	devices, err := p.Devices()
	if err != nil {
		return nil, err
	}
	weak := weak{Provider: p, attr: attr, caps: caps}
	return &narrow{
		Provider: p,
		device:   &narrowDevice{weakDevice: weakDevice{devices[0], weak}},
		ids:      make(map[cm.TransportID]*narrowID),
	}, nil
}

func (p *narrow) Devices() ([]verbs.Device, error) { return []verbs.Device{p.device}, nil }

func (p *narrow) OpenChannel() (cm.TransportChannel, error) {
	ch, err := p.Provider.OpenChannel()
	return &narrowChannel{ch, p}, err
}

// adopt returns the narrowID that wraps an ID, and nil for nil.
func (p *narrow) adopt(id cm.TransportID) cm.TransportID {
	if id == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ids[id] == nil {
		p.ids[id] = &narrowID{id, p}
	}
	return p.ids[id]
}

// narrowDevice wraps a device and counts its open completion queues.
type narrowDevice struct {
	weakDevice
	mu    sync.Mutex
	cqs   int   // number of open completion queues
	async error // error that NextAsync returns, or nil
}

func (d *narrowDevice) NextAsync(ev *verbs.AsyncEvent) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.async != nil {
		return false, d.async
	}
	return d.weakDevice.NextAsync(ev)
}

// failAsync makes later calls of NextAsync return err.
func (d *narrowDevice) failAsync(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.async = err
}

func (d *narrowDevice) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	limits := d.Attr()
	if attr.Depth > limits.MaxCQE {
		return nil, &verbs.ParamError{Field: "CQ depth", Value: int64(attr.Depth), Limit: int64(limits.MaxCQE)}
	}
	if d.cqs == limits.MaxCQ {
		return nil, &verbs.ParamError{Field: "completion queues", Value: int64(d.cqs) + 1, Limit: int64(limits.MaxCQ)}
	}
	cq, err := d.weakDevice.CreateCQ(attr)
	if err != nil {
		return nil, err
	}
	d.cqs++
	return &narrowCQ{cq, d}, nil
}

func (d *narrowDevice) open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cqs
}

func (d *narrowDevice) AllocPD() (verbs.PD, error) {
	pd, err := d.weakDevice.AllocPD()
	return narrowPD{pd, d}, err
}

type narrowPD struct {
	verbs.PD
	device *narrowDevice
}

func (p narrowPD) Device() verbs.Device { return p.device }

func (p narrowPD) CreateSRQ(attr *verbs.SRQAttr) (verbs.SRQ, error) {
	own := *attr
	own.CQ = attr.CQ.(*narrowCQ).CQ
	return p.PD.CreateSRQ(&own)
}

type narrowCQ struct {
	verbs.CQ
	device *narrowDevice
}

func (q *narrowCQ) Close() error {
	err := q.CQ.Close()
	if err == nil {
		q.device.mu.Lock()
		defer q.device.mu.Unlock()
		q.device.cqs--
	}
	return err
}

type narrowChannel struct {
	cm.TransportChannel
	p *narrow
}

func (ch *narrowChannel) Next(ev *cm.TransportEvent) (bool, error) {
	ok, err := ch.TransportChannel.Next(ev)
	if ok {
		ev.ID, ev.Listener = ch.p.adopt(ev.ID), ch.p.adopt(ev.Listener)
	}
	return ok, err
}

func (ch *narrowChannel) NewID(ps cm.PortSpace) (cm.TransportID, error) {
	id, err := ch.TransportChannel.NewID(ps)
	return ch.p.adopt(id), err
}

type narrowID struct {
	cm.TransportID
	p *narrow
}

func (id *narrowID) Device() verbs.Device {
	if id.TransportID.Device() == nil {
		return nil
	}
	return id.p.device
}

// CreateQP passes the wrapped objects to the provider.
func (id *narrowID) CreateQP(pd verbs.PD, attr *verbs.QPInitAttr) (verbs.QP, error) {
	own := *attr
	own.SendCQ, own.RecvCQ = attr.SendCQ.(*narrowCQ).CQ, attr.RecvCQ.(*narrowCQ).CQ
	return id.TransportID.CreateQP(pd.(narrowPD).PD, &own)
}

func (id *narrowID) Migrate(to cm.TransportChannel) error {
	return id.TransportID.Migrate(to.(*narrowChannel).TransportChannel)
}

func (id *narrowID) Destroy() error {
	id.p.mu.Lock()
	delete(id.p.ids, id.TransportID)
	id.p.mu.Unlock()
	return id.TransportID.Destroy()
}
