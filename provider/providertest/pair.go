package providertest

import (
	"errors"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// memorySize is the default size of an end's memory in bytes.
const memorySize = 256 << 10

// A plan has the parameters of an end.
type plan struct {
	caps      verbs.QPCaps
	access    verbs.Access // access rights of the memory
	memory    int          // size of the memory in bytes
	signalAll bool
	recvTime  bool
	srq       verbs.SRQ
	sends     *queue // queue for send completions; nil means a new queue
	recvs     *queue // queue for receive completions; nil means a new queue
	// Completion channel of both CQs, or nil. The cookie is 1 for sends and 2 for
	// receives.
	channel verbs.CompChannel
	vector  int
	param   cm.ConnParam // parameters that are passed to Connect or Accept
}

// plans returns the default plans.
func (r *rig) plans() (a, b plan) {
	depth := int(min(r.attr.MaxQPRdAtom, r.attr.MaxQPInitRdAtom, 4))
	standard := plan{
		caps:   verbs.QPCaps{MaxSendWR: 32, MaxRecvWR: 32, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: min(r.attr.MaxInline, 64)},
		access: verbs.AccessAll,
		memory: memorySize,
		param:  cm.ConnParam{ResponderResources: depth, InitiatorDepth: depth},
	}
	a, b = standard, standard
	if !r.opts.OneVector {
		b.vector = r.attr.NumCompVectors - 1
	}
	return a, b
}

// An end is one side of a connection, or a UD queue pair.
type end struct {
	r     *rig
	id    *cm.ID // nil if the queue pair belongs to no ID
	qp    verbs.QP
	mr    verbs.MR
	sends *queue
	recvs *queue
}

// A pair is two connected ends. End a has called Connect, and end b has called Accept.
type pair struct {
	*rig
	a, b *end
}

// pair connects two ends. The function change() may modify the default plans; it may be
// nil.
func (r *rig) pair(change func(a, b *plan)) *pair {
	r.t.Helper()
	a, b := r.plans()
	if change != nil {
		change(&a, &b)
	}
	return r.connect(&a, &b)
}

func (r *rig) connect(a, b *plan) *pair {
	r.t.Helper()
	p := r.ask(a, b, &a.param).pair
	r.NoError(p.b.id.Accept(&b.param))
	r.await(p.a.id, cm.Established)
	r.await(p.b.id, cm.Established)
	r.t.Cleanup(r.noCompletionsLeft)
	return p
}

// A request is a pair without an answer yet: end a has called Connect, and end b has the
// request.
type request struct {
	*pair
	asked event // end b's ConnectRequest event
}

// request calls Connect with the given parameters and waits for the request.
func (r *rig) request(param *cm.ConnParam) *request {
	r.t.Helper()
	a, b := r.plans()
	return r.ask(&a, &b, param)
}

func (r *rig) ask(a, b *plan, param *cm.ConnParam) *request {
	r.t.Helper()
	listener := r.listen(cm.TCP)
	p := &pair{rig: r, a: r.newEnd(a), b: r.newEnd(b)}
	p.a.id = r.resolve(cm.TCP, listener.LocalAddr())
	p.a.createQP(a)
	r.NoError(p.a.id.Connect(param))

	asked := r.await(listener, cm.ConnectRequest)
	p.b.id = asked.id
	r.closing("passive id", p.b.id.Close)
	p.b.createQP(b)
	r.NoError(listener.Close())
	return &request{p, asked}
}

func (r *rig) newID(ps cm.PortSpace) *cm.ID {
	r.t.Helper()
	id, err := r.cms.NewID(ps)
	r.NoError(err)
	r.closing("id", id.Close)
	return id
}

// separate moves an ID to its own event channel until the end of the test. The rig does
// not fetch the events of this channel.
func (r *rig) separate(id *cm.ID) *cm.EventChannel {
	r.t.Helper()
	own, err := cm.OpenChannel(r.provider)
	r.NoError(err)
	r.NoError(id.Migrate(own))
	r.closing("event channel", func() error { return errors.Join(id.Migrate(r.cms), own.Close()) })
	return own
}

// listen returns a listener on a free port of the rig's address.
func (r *rig) listen(ps cm.PortSpace) *cm.ID {
	r.t.Helper()
	id := r.newID(ps)
	r.NoError(id.Bind(netip.AddrPortFrom(r.opts.Addr, 0)))
	r.NoError(id.Listen(16))
	return id
}

// resolve returns an ID that is ready to connect to dst.
func (r *rig) resolve(ps cm.PortSpace, dst netip.AddrPort) *cm.ID {
	r.t.Helper()
	id := r.newID(ps)
	r.NoError(id.ResolveAddr(netip.AddrPort{}, dst, waitLimit))
	r.await(id, cm.AddrResolved)
	r.NoError(id.ResolveRoute(waitLimit))
	r.await(id, cm.RouteResolved)
	r.Equal(r.dev, id.Device(), "the device that owns the address")
	return id
}

// newEnd creates the memory and the CQs of an end.
func (r *rig) newEnd(pl *plan) *end {
	r.t.Helper()
	e := &end{r: r, sends: pl.sends, recvs: pl.recvs}
	e.mr = r.alloc(r.pd, pl.memory, pl.access)
	// The CQ has more than twice the planned depth, because the device may make the queues
	// of the QP longer than requested.
	attr := verbs.CQAttr{Depth: 2*pl.caps.MaxSendWR + 32, Vector: pl.vector, Channel: pl.channel, Cookie: 1}
	if e.sends == nil {
		e.sends = r.newQueue(attr)
	}
	if e.recvs == nil {
		attr.Depth, attr.Cookie = 2*pl.caps.MaxRecvWR+32, 2
		e.recvs = r.newQueue(attr)
	}
	return e
}

// initAttr returns the attributes for the end's queue pair.
func (e *end) initAttr(pl *plan, qpType verbs.QPType) *verbs.QPInitAttr {
	return &verbs.QPInitAttr{
		Type: qpType, SendCQ: e.sends.cq, RecvCQ: e.recvs.cq, SRQ: pl.srq, Caps: pl.caps, SignalAll: pl.signalAll, RecvTime: pl.recvTime,
	}
}

// createQP creates the queue pair on the end's ID.
func (e *end) createQP(pl *plan) {
	e.r.t.Helper()
	e.r.NoError(e.id.CreateQP(e.r.pd, e.initAttr(pl, e.id.PortSpace().QPType())))
	e.qp = e.id.QP()
	e.r.closing("QP", e.closeQP)
}

// closeQP closes the end's queue pair, if it is open.
func (e *end) closeQP() error {
	if e.id.QP() == nil {
		return nil
	}
	return e.id.CloseQP()
}

func (e *end) modify(mask verbs.QPAttrMask, attr verbs.QPAttr) {
	e.r.t.Helper()
	e.r.NoError(e.qp.Modify(&attr, mask))
}

// toState moves the queue pair to a state that needs no other attribute.
func (e *end) toState(state verbs.QPState) {
	e.r.t.Helper()
	e.modify(verbs.AttrState, verbs.QPAttr{State: state})
	e.r.Equal(state, e.qp.State())
}
