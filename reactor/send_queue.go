package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A sendQueue is the send queue of a connection: its places, the outstanding requests, and
// the requests that are not posted yet.
type sendQueue struct {
	flow        sendFlow
	requests    sendRequests
	batch       sendBatch
	uses        useQueue      // each outstanding request's uses of regions, except the first
	windows     windowSet     // parts of regions that are shown to the peer: see Show
	maxSGE      int32         // largest number of scatter/gather elements of a request
	maxInline   int32         // size in bytes of the largest message that is sent inline
	unrung      uint32        // number of requests that the device has taken since the last doorbell
	messages    uint32        // number of messages accepted, modulo 2^32
	confirmedAt time.Duration // time of the last confirmation, by the loop's clock
}

// stage adds a request of the library with the given id, for the slot that sendFlow.next has
// returned. The request is signaled and has no payload.
func (q *sendQueue) stage(id uint64, slot uint32, code verbs.Opcode) (*verbs.SendWR, *sendRequest) {
	wr, r := q.batch.addRequest(id, code, verbs.SendSignaled), q.requests.add(&q.flow, slot)
	q.flow.accepted(true)
	*r = sendRequest{code: code}
	return wr, r
}

// setInline makes a copy of b the payload of a request.
func (q *sendQueue) setInline(wr *verbs.SendWR, r *sendRequest, b []byte) {
	r.bytes = uint32(len(b))
	if len(b) > 0 {
		wr.Inline = q.batch.copyBytes(b)
		wr.Flags |= verbs.SendInline
	}
}

// setBuffer makes the message in b the payload of a request.
func (q *sendQueue) setBuffer(wr *verbs.SendWR, r *sendRequest, b *Buffer) {
	r.bytes, r.buffer = uint32(b.length), b
	b.state = bufferSending
	if b.length > 0 {
		wr.SGEs = q.batch.sgeList(verbs.SGE{Addr: b.sge[0].Addr, Length: uint32(b.length), LKey: b.sge[0].LKey})
	}
}

// endUses ends the uses of regions by the oldest request that has some.
func (q *sendQueue) endUses(r *sendRequest) {
	if u := r.use; u != nil {
		r.use = nil
		u.end()
		q.uses.end(int(r.more))
	}
}

// post posts the staged requests to qp, or rings the doorbell for requests that the device
// has already. It returns the number of doorbells, and of requests that the device has got
// since the last doorbell.
func (q *sendQueue) post(qp verbs.QP) (doorbells, requests uint64, err error) {
	requests, q.unrung = uint64(q.unrung), 0
	if q.flow.staged() > 0 {
		n, err := q.batch.post(qp)
		q.flow.posted += uint32(n)
		return 1, requests + uint64(n), err
	}
	if requests == 0 {
		return 0, 0, nil
	}
	qp.Doorbell()
	return 1, requests, nil
}

// release frees the buffers and the regions of the outstanding requests, after the queue
// pair was closed.
func (q *sendQueue) release() {
	for q.flow.outstanding() > 0 {
		r := q.requests.at(q.flow.retire())
		if r.buffer != nil {
			r.buffer.recycle()
		}
		q.endUses(r)
	}
}

// A sendFlow counts the requests of a send queue. Accepted requests get running numbers,
// modulo 2^32. A request's slot is its number modulo the size of the queue:
//
//	before tail          completed
//	tail to posted-1     in flight: posted and not completed
//	posted to head-1     staged: accepted and not posted
type sendFlow struct {
	limit       uint32 // number of requests of the application that may be outstanding
	signalEvery uint32 // every signalEvery-th request is signaled
	mask        uint32 // size of the queue minus one

	tail       uint32 // running number of the oldest outstanding request
	posted     uint32 // running number of the first request that is not posted yet
	head       uint32 // running number of the next request
	unsignaled uint32 // number of requests accepted since the last signaled request
	probes     uint32 // number of outstanding requests that are probes
	internal   uint32 // number of outstanding requests that the library has made for long messages
	// wanted is the number of requests for which there was no room, so that OnWritable must be
	// called when there is; or 0.
	wanted uint32
}

// newSendFlow makes a sendFlow with room for limit requests of the application, one probe
// and the given number of internal requests. The parameter signalEvery is
// Config.Transport.SignalEvery.
func newSendFlow(limit, signalEvery, internal int) sendFlow {
	size := uint32(1)
	for size < uint32(limit+1+internal) {
		size <<= 1
	}
	return sendFlow{limit: uint32(limit), signalEvery: uint32(signalEvery), mask: size - 1}
}

// outstanding returns the number of requests accepted and not completed.
func (f *sendFlow) outstanding() uint32 { return f.head - f.tail }

// ofApp returns the number of outstanding requests of the application.
func (f *sendFlow) ofApp() uint32 { return f.outstanding() - f.probes - f.internal }

// inFlight returns the number of requests posted and not completed.
func (f *sendFlow) inFlight() uint32 { return f.posted - f.tail }

// staged returns the number of requests accepted and not posted.
func (f *sendFlow) staged() uint32 { return f.head - f.posted }

// full reports whether there is no room for another request of the application.
func (f *sendFlow) full() bool { return f.ofApp() >= f.limit }

// room returns for how many requests of the application there is room.
func (f *sendFlow) room() uint32 { return f.limit - min(f.ofApp(), f.limit) }

// next returns the slot of the next request, and whether to signal the request. The
// request that fills the queue is signaled, because otherwise the queue would stay full.
func (f *sendFlow) next(signal bool) (slot uint32, signaled bool) {
	return f.head & f.mask, signal || f.unsignaled+1 >= f.signalEvery || f.ofApp()+1 >= f.limit
}

// accepted counts the request for which next() has returned a slot.
func (f *sendFlow) accepted(signaled bool) {
	f.head++
	f.unsignaled++
	if signaled {
		f.unsignaled = 0
	}
}

// covers returns how many requests the completion of this slot completes: the request in
// the slot, and all before it. It returns zero if the request is not in flight.
func (f *sendFlow) covers(slot uint32) uint32 {
	n := (slot-f.tail)&f.mask + 1
	if slot > f.mask || n > f.inFlight() {
		return 0
	}
	return n
}

// retire removes the oldest request, which has completed, and returns its slot.
func (f *sendFlow) retire() (slot uint32) {
	slot = f.tail & f.mask
	f.tail++
	// If the retired request was only staged, posted is before tail now. A retired request
	// must not be posted, so posted moves to tail.
	if f.posted-f.tail > f.mask {
		f.posted = f.tail
	}
	return slot
}

// writable reports whether OnWritable must be called now, and then is false until requests
// are refused again.
func (f *sendFlow) writable() bool {
	if f.wanted == 0 || f.ofApp() > f.writableAt() {
		return false
	}
	f.wanted = 0
	return true
}

// writableAt returns how many requests may be outstanding in OnWritable: at most half of the
// allowed ones, and fewer if more room is wanted.
func (f *sendFlow) writableAt() uint32 { return min(f.limit/2, f.limit-f.wanted) }

// stuck reports whether OnWritable must be called, and no completion will lead to it, because
// too many of the last requests are not signaled.
func (f *sendFlow) stuck() bool { return f.wanted > 0 && f.unsignaled > f.writableAt() }

// A requestKind says how a completed send request is handled.
type requestKind uint8

// A message or another operation of the application has the kind requestOp if
// OnCompletion may be called for it, and then all fields of its sendRequest are valid. A
// message for which OnCompletion is never called has the kind requestPlain, and then no
// other field is valid.
const (
	requestOp requestKind = iota
	requestPlain
	requestProbe        // the request is a keepalive probe
	requestWindow       // the request binds or invalidates the window whose key is in bytes
	requestAnnouncement // a control message that announces a long message
	requestControl      // a control message of another type
	requestLongRead     // a READ of a long message
)

// A sendRequest describes an outstanding send request.
type sendRequest struct {
	tag    uint64       // value for Op.Tag
	buffer *Buffer      // buffer to release after the completion, or nil
	use    *regionUse   // the request's use of a region until its completion, or nil
	bytes  uint32       // value for Op.Bytes, or the key of a window
	code   verbs.Opcode // value for Op.Code
	kind   requestKind
	report reportWhen
	// Number of the request's uses of regions that are in sendQueue.uses. They end with the
	// completion, as the field use does.
	more uint8
}

// op returns the description of the operation for OnCompletion, without Op.Value.
func (r *sendRequest) op() Op {
	if r.kind == requestWindow {
		return Op{Code: r.code, Tag: r.tag}
	}
	return Op{Code: r.code, Tag: r.tag, Bytes: r.bytes}
}

// reports reports whether OnCompletion is called for the result err.
func (r *sendRequest) reports(err error) bool {
	return r.report == reportAlways || r.report == reportFailure && err != nil
}

// sendRequests has the outstanding send requests of a connection, by their slots (see
// sendFlow). It is a ring that grows with the number of outstanding requests, because
// most connections of a program with many connections have few.
type sendRequests struct {
	ring []sendRequest // slots of requests; the length is 0 or a power of two
}

// initialRequests is the first length of the ring. Arbitrary.
const initialRequests = 4

// at returns the request in a slot. The slot must belong to an outstanding request.
func (s *sendRequests) at(slot uint32) *sendRequest {
	return &s.ring[slot&uint32(len(s.ring)-1)]
}

// add returns the place in the ring for a new request, whose slot is the result of
// f.next. If the ring is full, add grows it first. The fields of the returned sendRequest
// may still have the values of an earlier request.
func (s *sendRequests) add(f *sendFlow, slot uint32) *sendRequest {
	if f.outstanding() == uint32(len(s.ring)) {
		s.grow(f)
	}
	return s.at(slot)
}

// grow doubles the ring, and keeps the outstanding requests.
func (s *sendRequests) grow(f *sendFlow) {
	old := *s
	s.ring = make([]sendRequest, max(initialRequests, 2*len(old.ring)))
	for i := f.tail; i != f.head; i++ {
		*s.at(i & f.mask) = *old.at(i & f.mask)
	}
}

// A sendBatch holds the unposted send requests of one connection. Its slices are reused.
type sendBatch struct {
	wrs   []verbs.SendWR
	sges  []verbs.SGE // scatter/gather lists of the requests in wrs
	bytes []byte      // memory for the inline data of the requests in wrs
}

// addRequest appends a request without payload. The fields that its opcode does not need may
// have the values of an earlier request.
func (s *sendBatch) addRequest(id uint64, code verbs.Opcode, flags verbs.SendFlags) *verbs.SendWR {
	n := len(s.wrs)
	if n == cap(s.wrs) {
		s.wrs = append(s.wrs, verbs.SendWR{})
	}
	s.wrs = s.wrs[:n+1]
	wr := &s.wrs[n]
	wr.ID, wr.Opcode, wr.Flags = id, code, flags
	wr.SGEs, wr.Inline = nil, nil
	return wr
}

// copyBytes returns a copy of b for inline data, because the application may change b
// before the request is posted.
func (s *sendBatch) copyBytes(b []byte) []byte {
	at := len(s.bytes)
	s.bytes = append(s.bytes, b...)
	return s.bytes[at:]
}

// sgeList returns a scatter/gather list whose only element is sge.
func (s *sendBatch) sgeList(sge verbs.SGE) []verbs.SGE {
	at := len(s.sges)
	s.sges = append(s.sges, sge)
	return s.sges[at:]
}

// post posts the requests to qp, and returns how many were posted. The others stay in
// the batch after an error.
func (s *sendBatch) post(qp verbs.QP) (n int, err error) {
	if n, err = qp.PostSend(s.wrs); err != nil {
		s.wrs = s.wrs[:copy(s.wrs, s.wrs[n:])]
		return n, err
	}
	s.wrs = s.wrs[:0]
	s.sges = s.sges[:0]
	s.bytes = s.bytes[:0]
	return n, nil
}
