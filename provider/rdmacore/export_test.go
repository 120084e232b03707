//go:build cgo && linux

package rdmacore

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

type (
	Registry      = registry
	OrderedPlaces = orderedPlaces
	PoolPlaces    = poolPlaces
	SendReq       = sendReq
	RecvReq       = recvReq
	Users         = userCount
	Sockaddr      = sockaddr
)

const MaxPlaces = maxPlaces

var (
	NewOrderedPlaces = newOrderedPlaces
	NewPoolPlaces    = newPoolPlaces
	VerbsError       = verbsError
	MemoryError      = memoryError
	PostError        = postError
	CMError          = cmError
	CreateError      = createError
	ToSockaddr       = toSockaddr
	ByApplication    = func(ev *cm.TransportEvent) bool { return byApplication(ev) }
	WRID             = wrID
	SplitWRID        = splitWRID
	ReadCounters     = readCounters
	WhyNoDevice      = whyNoDevice
)

// An AsyncQueue is an asyncQueue without a device.
type AsyncQueue struct{ *asyncQueue }

// RawAsync is an event in the form in which the C code returns it.
type RawAsync = rawAsync

// NewAsyncQueue creates an asyncQueue without a device. The function take replaces the
// device. The map qps has the queue pairs by address.
func NewAsyncQueue(fd int, take func(*RawAsync) int32, qps map[uint64]verbs.QP) (AsyncQueue, error) {
	a, err := newAsyncQueue(fd, take, func(raw *rawAsync) (verbs.AsyncEvent, bool) {
		qp, ok := qps[raw.object]
		return verbs.AsyncEvent{Type: verbs.AsyncEventType(raw.typ), QP: qp}, ok
	})
	return AsyncQueue{a}, err
}

// Raw returns an event about the queue pair with the given address.
func Raw(typ verbs.AsyncEventType, address uint64) RawAsync {
	return rawAsync{object: address, typ: uint32(typ)}
}

func (a AsyncQueue) FD() int                                 { return a.epoll.FD() }
func (a AsyncQueue) Next(ev *verbs.AsyncEvent) (bool, error) { return a.next(ev) }
func (a AsyncQueue) Look()                                   { a.fetchAll() }
func (a AsyncQueue) Forget(qp verbs.QP)                      { a.dropEvents(qp) }
func (a AsyncQueue) Close()                                  { a.close() }

func FromSockaddr(s Sockaddr) netip.AddrPort { return fromSockaddr(&s) }

func (r *registry) Add(q settler) (uint64, bool) { return r.add(q) }
func (r *registry) Remove(tag uint64)            { r.remove(tag) }
func (r *registry) Find(tag uint64) any {
	if q := r.find(tag); q != nil {
		return q
	}
	return nil
}

func (p *orderedPlaces) Room() int                          { return p.room() }
func (p *orderedPlaces) Take(id uint64) uint32              { return p.occupy(id) }
func (p *orderedPlaces) Untake(n int)                       { p.returnLast(n) }
func (p *orderedPlaces) Settle(place uint32) (uint64, bool) { return p.settle(place) }
func (p *orderedPlaces) Forget()                            { p.reset() }

func (p *poolPlaces) Room() int                          { return p.room() }
func (p *poolPlaces) Take(id uint64) uint32              { return p.occupy(id) }
func (p *poolPlaces) Settle(place uint32) (uint64, bool) { return p.settle(place) }
func (p *poolPlaces) Forget()                            { p.reset() }

func (u *userCount) Add() error                       { return u.add() }
func (u *userCount) Remove()                          { u.remove() }
func (u *userCount) Close(destroy func() error) error { return u.close(destroy) }

// A RawWC is struct ibv_wc.
type RawWC = rawWC

// NewRawWC returns a completion with immediate data.
func NewRawWC(status verbs.Status, opcode uint32) RawWC {
	return rawWC{
		status: uint32(status), opcode: opcode, vendorErr: 1, byteLen: 2, imm: [4]byte{0, 0, 1, 2}, qpn: 3, srcQPN: 4,
		flags: uint32(verbs.WCWithImm) | 1<<8,
	}
}

func (r *rawWC) Convert(wc *verbs.WC) { r.convert(wc) }

// A Queue replaces a send or receive queue in tests of the registry. Its methods do
// nothing.
type Queue struct{ number int }

func NewQueue(number int) *Queue             { return &Queue{number} }
func (*Queue) settle(uint32, *verbs.WC) bool { return true }
func (*Queue) failed()                       {}

// A SendQueue is a send queue without a device.
type SendQueue struct{ q sendQueue }

// NewSendQueue creates a send queue for datagrams of up to mtu bytes.
func NewSendQueue(kind verbs.QPType, caps verbs.QPCaps, mtu int) *SendQueue {
	return &SendQueue{q: sendQueue{
		qp: &qp{pd: &pd{dev: &device{}}, kind: kind, caps: caps}, mtu: mtu, places: newOrderedPlaces(caps.MaxSendWR),
	}}
}

func (s *SendQueue) Gather(wrs []verbs.SendWR) (int, error) { return s.q.gather(wrs) }
func (s *SendQueue) Batch() ([]SendReq, []verbs.SGE, []byte) {
	return s.q.reqs, s.q.sges, s.q.inline
}

// Settle completes the request with the given wr_id.
func (s *SendQueue) Settle(id uint64) bool {
	_, place := splitWRID(id)
	return s.q.settle(place, &verbs.WC{})
}

// A RecvQueue is a receive queue without a device.
type RecvQueue struct{ q recvQueue }

func NewRecvQueue(maxWR, maxSGE int) *RecvQueue {
	return &RecvQueue{q: recvQueue{maxSGE: maxSGE, places: newPoolPlaces(maxWR)}}
}

func (r *RecvQueue) Gather(wrs []verbs.RecvWR) (int, error) { return r.q.gather(wrs) }
func (r *RecvQueue) Batch() ([]uint64, []verbs.SGE) {
	counts := make([]uint64, len(r.q.reqs))
	for i, req := range r.q.reqs {
		counts[i] = req.sges
	}
	return counts, r.q.sges
}
func (r *RecvQueue) Datagrams(n int32) { r.q.datagrams.Store(n) }
func (r *RecvQueue) Settle(place uint32, wc *verbs.WC) bool {
	return r.q.settle(place, wc)
}

// Fields returns the fields of a request by name.
func (r SendReq) Fields() map[string]uint64 {
	return map[string]uint64{
		"addr": r.remoteAddr, "compare": r.compareAdd, "swap": r.swap, "rkey": uint64(r.rkey), "imm": uint64(r.imm),
		"qpn": uint64(r.qpn), "qkey": uint64(r.qkey), "sges": uint64(r.sges), "opcode": uint64(r.opcode), "flags": uint64(r.flags),
	}
}

func (r SendReq) ID() uint64 { return r.id }
