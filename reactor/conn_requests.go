package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

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
	// Number of the request's uses of regions that are in Conn.uses. They end with the
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
