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

// A fakeDevice is a device with an Engine, for tests of connection management. Its queue
// pairs transfer no data.
type fakeDevice struct {
	// nil, because the tests call only methods that fakeDevice itself defines
	verbs.Device
	attr verbs.DeviceAttr

	mu       sync.Mutex
	channels int // number of open event channels
	lastQPN  uint32
	qps      map[uint32]*fakeQP // open queue pairs by number
	// bindings that were passed to Bind but not yet to Unbind, by queue pair number
	bound   map[uint32]*Binding
	bindErr error // error that Bind returns, or nil
	// result of AwaitsNotices for queue pairs with a binding
	awaitsNotices bool
}

func newFakeDevice() *fakeDevice {
	return &fakeDevice{
		attr: verbs.DeviceAttr{
			NodeGUID: rand.Uint64(), MaxQPRdAtom: 128, MaxQPInitRdAtom: 128, LocalCAAckDelay: 15,
		},
		lastQPN: rand.Uint32() & 0xffff, qps: make(map[uint32]*fakeQP), bound: make(map[uint32]*Binding),
	}
}

func (d *fakeDevice) Attr() verbs.DeviceAttr { return d.attr }

func (d *fakeDevice) AllocPD() (verbs.PD, error) { return &fakePD{dev: d}, nil }

func (d *fakeDevice) CreateCQ(*verbs.CQAttr) (verbs.CQ, error) { return fakeCQ{}, nil }

func (d *fakeDevice) AddChannel() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.channels++
	return nil
}

func (d *fakeDevice) RemoveChannel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.channels--
}

func (d *fakeDevice) SourceIndex(netip.Addr) (int, error) { return 0, nil }

func (d *fakeDevice) Bind(qpn uint32, b *Binding) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bindErr != nil {
		if b.End != nil {
			b.End.Release()
		}
		return d.bindErr
	}
	d.unbind(qpn)
	d.bound[qpn] = b
	return nil
}

func (d *fakeDevice) Unbind(qpn uint32, b *Binding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bound[qpn] == b {
		d.unbind(qpn)
	}
}

// unbind removes the binding of a queue pair, if there is one. If the queue pair has not
// taken the binding's End, unbind releases the End.
func (d *fakeDevice) unbind(qpn uint32) {
	b := d.bound[qpn]
	delete(d.bound, qpn)
	if q := d.qps[qpn]; b != nil && b.End != nil && (q == nil || q.taken != b) {
		b.End.Release()
	}
}

func (d *fakeDevice) PeerGone(qpn uint32, b *Binding) {
	d.mu.Lock()
	q := d.qps[qpn]
	d.mu.Unlock()
	if q != nil && q.taken == b {
		q.setState(verbs.StateError)
	}
}

func (d *fakeDevice) AwaitsNotices(qpn uint32, b *Binding) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.awaitsNotices && d.bound[qpn] == b
}

func (d *fakeDevice) setAwaitsNotices(awaits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaitsNotices = awaits
}

// binding returns the binding of a queue pair, or nil.
func (d *fakeDevice) binding(q verbs.QP) *Binding {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bound[q.Num()]
}

// A fakePD makes the queue pairs of a fakeDevice.
type fakePD struct {
	verbs.PD
	dev *fakeDevice
}

func (p *fakePD) Device() verbs.Device { return p.dev }

func (p *fakePD) CreateQP(attr *verbs.QPInitAttr) (verbs.QP, error) {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastQPN++
	q := &fakeQP{dev: d, num: d.lastQPN + 2, typ: attr.Type}
	d.qps[q.num] = q
	return q, nil
}

func (p *fakePD) Close() error { return nil }

type fakeCQ struct{ verbs.CQ }

func (fakeCQ) Close() error { return nil }

// A fakeQP is a queue pair without a data path. It implements QueuePair.
type fakeQP struct {
	verbs.QP
	dev *fakeDevice
	num uint32
	typ verbs.QPType

	mu          sync.Mutex
	attr        verbs.QPAttr
	closed      bool
	taken       *Binding     // binding whose End the queue pair has taken, or nil
	receivingAt []netip.Addr // arguments of the calls of ReceiveAt, in order

	receiveAtErr error // error that ReceiveAt returns, or nil
}

func (q *fakeQP) Num() uint32 { return q.num }

func (q *fakeQP) Type() verbs.QPType { return q.typ }

func (q *fakeQP) State() verbs.QPState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.attr.State
}

func (q *fakeQP) setState(to verbs.QPState) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.attr.State = to
}

func (q *fakeQP) Query() (verbs.QPAttr, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.attr, nil
}

// Modify implements verbs.QP. A queue pair that enters RTR takes the End of its binding.
func (q *fakeQP) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	b := q.dev.binding(q)
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

func (q *fakeQP) set(attr *verbs.QPAttr, mask verbs.QPAttrMask) {
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

func (q *fakeQP) Close() error {
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
		if q.dev.bound[q.num] == q.taken {
			delete(q.dev.bound, q.num)
		}
	}
	return nil
}

func (q *fakeQP) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

func (q *fakeQP) ReceiveAt(at netip.Addr) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.receivingAt = append(q.receivingAt, at)
	return q.receiveAtErr
}

// exchange simulates a message between two connected queue pairs. Like a device, it calls
// DataHeard on the receiving side.
func exchange(t *testing.T, _ *party, sender verbs.QP, to *party, receiver verbs.QP) {
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
	if b := to.dev.binding(receiver); b != nil && b.Hearer != nil {
		b.Hearer.DataHeard()
	}
}

// A counted maps the names of counters to their values. Counters with the value 0 are
// omitted.
type counted map[string]uint64

// counted returns the counters of the party that are not zero.
func (s *party) counted() counted {
	got := counted{}
	for _, c := range counters.Sum([]*counters.Set{s.m.LocalCounts, s.m.WireCounts}) {
		if c.Value > 0 {
			got[c.Name] = c.Value
		}
	}
	return got
}

var (
	_ Engine    = (*fakeDevice)(nil)
	_ QueuePair = (*fakeQP)(nil)
)
