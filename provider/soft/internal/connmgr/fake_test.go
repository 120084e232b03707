//go:build linux

package connmgr

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
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
	Bound   map[uint32]*Binding
	BindErr error // error that Bind returns, or nil
	// result of AwaitsNotices for queue pairs with a binding
	awaitsNotices bool
}

func NewDevice() *Device {
	return &Device{
		attr: verbs.DeviceAttr{
			NodeGUID: rand.Uint64(), MaxQPRdAtom: 128, MaxQPInitRdAtom: 128, LocalCAAckDelay: 15,
		},
		lastQPN: rand.Uint32() & 0xffff, qps: make(map[uint32]*QP), Bound: make(map[uint32]*Binding),
	}
}

func (d *Device) Attr() verbs.DeviceAttr { return d.attr }

func (d *Device) AllocPD() (verbs.PD, error) { return &fakePD{dev: d}, nil }

func (d *Device) CreateCQ(*verbs.CQAttr) (verbs.CQ, error) { return fakeCQ{}, nil }

func (d *Device) AddChannel() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Channels++
	return nil
}

func (d *Device) RemoveChannel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Channels--
}

func (d *Device) SourceIndex(netip.Addr) (int, error) { return 0, nil }

func (d *Device) Bind(qpn uint32, b *Binding) error {
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

func (d *Device) Unbind(qpn uint32, b *Binding) {
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

func (d *Device) PeerGone(qpn uint32, b *Binding) {
	d.mu.Lock()
	q := d.qps[qpn]
	d.mu.Unlock()
	if q != nil && q.taken == b {
		q.setState(verbs.StateError)
	}
}

func (d *Device) AwaitsNotices(qpn uint32, b *Binding) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.awaitsNotices && d.Bound[qpn] == b
}

func (d *Device) SetAwaitsNotices(awaits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaitsNotices = awaits
}

// Binding returns the Binding of a queue pair, or nil.
func (d *Device) Binding(q verbs.QP) *Binding {
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

	mu          sync.Mutex
	attr        verbs.QPAttr
	closed      bool
	taken       *Binding     // binding whose End the queue pair has taken, or nil
	receivingAt []netip.Addr // arguments of the calls of ReceiveAt, in order

	receiveAtErr error // error that ReceiveAt returns, or nil
}

func (q *QP) Num() uint32 { return q.num }

func (q *QP) Type() verbs.QPType { return q.typ }

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

func (q *QP) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

func (q *QP) ReceiveAt(at netip.Addr) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.receivingAt = append(q.receivingAt, at)
	return q.receiveAtErr
}

// Exchange simulates a message between two connected queue pairs. Like a device, it calls
// DataHeard on the receiving side.
func Exchange(t *testing.T, _ *party, sender verbs.QP, to *party, receiver verbs.QP) {
	t.Helper()
	sends, err := sender.Query()
	require.NoError(t, err)
	receives, err := receiver.Query()
	require.NoError(t, err)
	require.Equal(t, verbs.StateRTS, sends.State)
	require.Contains(t, []verbs.QPState{verbs.StateRTR, verbs.StateRTS}, receives.State)
	require.Equal(t, receiver.Num(), sends.DestQPN)
	require.Equal(t, sender.Num(), receives.DestQPN)
	require.Equal(t, sends.SQPSN, receives.RQPSN)
	if b := to.Dev.Binding(receiver); b != nil && b.Hearer != nil {
		b.Hearer.DataHeard()
	}
}

// A Counted maps the names of counters to their values. Counters with the value 0 are
// omitted.
type Counted map[string]uint64

// Counted returns the counters of the party that are not zero.
func (s *party) Counted() Counted {
	got := Counted{}
	for _, c := range counters.Sum([]*counters.Set{s.M.LocalCounts, s.M.WireCounts}) {
		if c.Value > 0 {
			got[c.Name] = c.Value
		}
	}
	return got
}

var (
	_ Engine    = (*Device)(nil)
	_ QueuePair = (*QP)(nil)
)
