//go:build linux

package cmtest

import (
	"math/rand/v2"
	"net/netip"
	"sync"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Device is a device with an Engine, for tests of connection management. Its queue
// pairs transfer no data.
type Device struct {
	// nil, because the tests call only methods that Device itself defines
	verbs.Device
	attr verbs.DeviceAttr

	mu       sync.Mutex
	Channels int // number of open event channels
	lastQPN  uint32
	qps      map[uint32]*QP // open queue pairs by number
	// bindings that were passed to Bind but not yet to Unbind, by queue pair number
	Bound   map[uint32]*connmgr.Binding
	BindErr error // error that Bind returns, or nil
	// result of AwaitsNotices for queue pairs with a binding
	awaitsNotices bool
}

// NewDevice returns a device without queue pairs.
func NewDevice() *Device {
	return &Device{
		attr: verbs.DeviceAttr{
			NodeGUID: rand.Uint64(), MaxQPRdAtom: 128, MaxQPInitRdAtom: 128, LocalCAAckDelay: 15,
		},
		lastQPN: rand.Uint32() & 0xffff, qps: make(map[uint32]*QP), Bound: make(map[uint32]*connmgr.Binding),
	}
}

// Attr implements verbs.Device.
func (d *Device) Attr() verbs.DeviceAttr { return d.attr }

// Caps implements verbs.Device.
func (d *Device) Caps() verbs.Caps { return verbs.Caps{DisconnectData: true} }

// AllocPD implements verbs.Device.
func (d *Device) AllocPD() (verbs.PD, error) { return &fakePD{dev: d}, nil }

// CreateCQ implements verbs.Device.
func (d *Device) CreateCQ(*verbs.CQAttr) (verbs.CQ, error) { return fakeCQ{}, nil }

// AddChannel implements connmgr.Engine. It counts the channels.
func (d *Device) AddChannel() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Channels++
	return nil
}

// RemoveChannel implements connmgr.Engine.
func (d *Device) RemoveChannel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Channels--
}

// SourceIndex implements connmgr.Engine.
func (d *Device) SourceIndex(netip.Addr) (int, error) { return 0, nil }

// Bind implements connmgr.Engine.
func (d *Device) Bind(qpn uint32, b *connmgr.Binding) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.BindErr != nil {
		if b.End != nil {
			b.End.Release()
		}
		return d.BindErr
	}
	d.unbind(qpn)
	d.Bound[qpn] = b
	return nil
}

// Unbind implements connmgr.Engine.
func (d *Device) Unbind(qpn uint32, b *connmgr.Binding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Bound[qpn] == b {
		d.unbind(qpn)
	}
}

// unbind removes the binding of a queue pair, if there is one. If the queue pair has not
// taken the binding's End, unbind releases the End.
func (d *Device) unbind(qpn uint32) {
	b := d.Bound[qpn]
	delete(d.Bound, qpn)
	if q := d.qps[qpn]; b != nil && b.End != nil && (q == nil || q.taken != b) {
		b.End.Release()
	}
}

// PeerGone implements connmgr.Engine. It moves the queue pair to the error state.
func (d *Device) PeerGone(qpn uint32, b *connmgr.Binding) {
	d.mu.Lock()
	q := d.qps[qpn]
	d.mu.Unlock()
	if q != nil && q.taken == b {
		q.setState(verbs.StateError)
	}
}

// AwaitsNotices implements connmgr.Engine.
func (d *Device) AwaitsNotices(qpn uint32, b *connmgr.Binding) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.awaitsNotices && d.Bound[qpn] == b
}

// SetAwaitsNotices sets the result of AwaitsNotices for queue pairs with a binding.
func (d *Device) SetAwaitsNotices(awaits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaitsNotices = awaits
}

// Binding returns the Binding of a queue pair, or nil.
func (d *Device) Binding(q verbs.QP) *connmgr.Binding {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Bound[q.Num()]
}

// A fakePD makes the queue pairs of a Device.
type fakePD struct {
	verbs.PD
	dev *Device
}

func (p *fakePD) Device() verbs.Device { return p.dev }

func (p *fakePD) CreateQP(attr *verbs.QPInitAttr) (verbs.QP, error) {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastQPN++
	q := &QP{dev: d, num: d.lastQPN + 2, typ: attr.Type}
	d.qps[q.num] = q
	return q, nil
}

func (p *fakePD) Close() error { return nil }

type fakeCQ struct{ verbs.CQ }

func (fakeCQ) Close() error { return nil }

// A QP is a queue pair without a data path. It implements QueuePair.
type QP struct {
	verbs.QP
	dev *Device
	num uint32
	typ verbs.QPType

	mu     sync.Mutex
	attr   verbs.QPAttr
	closed bool
	taken  *connmgr.Binding // binding whose End the queue pair has taken, or nil
}

// Num implements verbs.QP.
func (q *QP) Num() uint32 { return q.num }

// Type implements verbs.QP.
func (q *QP) Type() verbs.QPType { return q.typ }

// State implements verbs.QP.
func (q *QP) State() verbs.QPState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.attr.State
}

func (q *QP) setState(to verbs.QPState) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.attr.State = to
}

// Query implements verbs.QP.
func (q *QP) Query() (verbs.QPAttr, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.attr, nil
}

// Modify implements verbs.QP. A queue pair that enters RTR takes the End of its binding.
func (q *QP) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	b := q.dev.Binding(q)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return verbs.ErrClosed
	}
	if err := verbs.CheckTransition(q.typ, q.attr.State, attr, mask); err != nil {
		return err
	}
	if attr.State == verbs.StateRTR && b != nil && b.End != nil && q.taken == nil {
		q.taken = b
	}
	q.set(attr, mask)
	return nil
}

func (q *QP) set(attr *verbs.QPAttr, mask verbs.QPAttrMask) {
	a := &q.attr
	for bit, assign := range map[verbs.QPAttrMask]func(){
		verbs.AttrState:           func() { a.State = attr.State },
		verbs.AttrAccess:          func() { a.Access = attr.Access },
		verbs.AttrPort:            func() { a.Port = attr.Port },
		verbs.AttrQKey:            func() { a.QKey = attr.QKey },
		verbs.AttrAV:              func() { a.AH = attr.AH },
		verbs.AttrPathMTU:         func() { a.PathMTU = attr.PathMTU },
		verbs.AttrDestQPN:         func() { a.DestQPN = attr.DestQPN },
		verbs.AttrRQPSN:           func() { a.RQPSN = attr.RQPSN },
		verbs.AttrSQPSN:           func() { a.SQPSN = attr.SQPSN },
		verbs.AttrMaxDestRdAtomic: func() { a.MaxDestRdAtomic = attr.MaxDestRdAtomic },
		verbs.AttrMaxRdAtomic:     func() { a.MaxRdAtomic = attr.MaxRdAtomic },
		verbs.AttrMinRNRTimer:     func() { a.MinRNRTimer = attr.MinRNRTimer },
		verbs.AttrTimeout:         func() { a.Timeout = attr.Timeout },
		verbs.AttrRetryCount:      func() { a.RetryCount = attr.RetryCount },
		verbs.AttrRNRRetry:        func() { a.RNRRetry = attr.RNRRetry },
	} {
		if mask&bit != 0 {
			assign()
		}
	}
}

// Close implements verbs.QP. It releases the End that the queue pair has taken.
func (q *QP) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	if q.taken != nil {
		q.taken.End.Release()
		if q.dev.Bound[q.num] == q.taken {
			delete(q.dev.Bound, q.num)
		}
	}
	return nil
}

// Closed implements connmgr.QueuePair.
func (q *QP) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// ReceiveAt implements connmgr.QueuePair. It does nothing.
func (q *QP) ReceiveAt(netip.Addr) error { return nil }

var (
	_ connmgr.Engine    = (*Device)(nil)
	_ connmgr.QueuePair = (*QP)(nil)
)
