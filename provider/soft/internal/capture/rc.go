package capture

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
)

// An RC records what a reliable connection on the local path sends and receives, as the
// packets that it would have been on the wire path: the requests cut by the path MTU, the
// responses, and the acknowledgements. It belongs to the owner of its Tap.
//
// Its PSNs and MSNs count these packets and messages, and begin where the queue pairs would
// begin. The path sequences in its parameters are positions in the ring of the local path.
type RC struct {
	out   half // requests of this side
	in    half // requests of the peer
	begun bool // true after the first request of this side
}

// Ends are the two ends of a connection.
type Ends struct {
	Local, Remote netip.Addr
	OwnQP, PeerQP uint32 // queue pair numbers
}

// NewRC returns an RC. The parameter mtu is the path MTU in bytes, and expected the PSN of the
// first request of the peer.
func (t *Tap) NewRC(e *Ends, mtu int, expected uint32) *RC {
	// Network cards choose a source port for each queue pair (IBTA A17.9.2).
	port := func(qpn uint32) uint16 { return 0xc000 | uint16(qpn&0x3fff) }
	sent := route{t, Outbound, Header{
		From: netip.AddrPortFrom(e.Local, port(e.OwnQP)), To: netip.AddrPortFrom(e.Remote, wire.UDPPort),
	}, e.PeerQP}
	received := route{t, Inbound, Header{
		From: netip.AddrPortFrom(e.Remote, port(e.PeerQP)), To: netip.AddrPortFrom(e.Local, wire.UDPPort),
	}, e.OwnQP}
	return &RC{
		out: half{requests: sent, responses: received, mtu: mtu, keepsAll: true},
		in:  half{requests: received, responses: sent, mtu: mtu, next: psn.New(expected)},
	}
}

// SendFrom sets the PSN of the first request of this side. After a request it does nothing.
func (c *RC) SendFrom(first uint32) {
	if !c.begun {
		c.out.next = psn.New(first)
	}
}

// Sent records a fragment of a request of this side. The parameter seq is the path sequence of
// the fragment, and executed the one before which the peer has executed all requests. If
// ackReq is true, the fragment asks for an acknowledgement.
func (c *RC) Sent(f *fragment.Fragment, ackReq bool, seq, executed uint64) {
	c.begun = true
	c.out.trim(executed)
	c.out.request(f, ackReq, seq)
}

// Acked records that the peer has executed all requests before a path sequence. It is one
// packet, unless there is nothing new to acknowledge.
func (c *RC) Acked(executed uint64) {
	h := &c.out
	newest, open := -1, h.open()
	for i := range open {
		x := &open[i]
		if x.seq >= executed || x.awaitsResponse() {
			break
		}
		if !x.acked {
			x.acked, newest = true, i
		}
	}
	if newest >= 0 {
		x := &open[newest]
		h.acknowledge(x.last, x.msn, wire.AckNoCredits)
	}
	h.trim(executed)
}

// Refused records that the peer has refused the request whose slot has the path sequence seq.
// After an RNR NAK, this request and the requests after it are going to be sent again.
func (c *RC) Refused(seq uint64, nak wire.Syndrome) {
	h := &c.out
	first, done, at := h.start, h.msn, len(h.sent)
	for i, x := range h.open() {
		if x.seq >= seq {
			first, done, at = x.first, x.msn.Add(-1), h.ended+i
			break
		}
	}
	h.acknowledge(first, done, nak)
	if nak.Kind() == wire.SyndromeRNRNAK {
		h.next, h.msn, h.sent = first, done, h.sent[:at]
	}
}

// Direct records a request of this side that was executed in mapped memory of the peer, and
// its response: the data of a READ, or the old value for an atomic. No earlier request is
// outstanding.
func (c *RC) Direct(f *fragment.Fragment, response []byte) {
	h := &c.out
	c.begun = true
	h.forget(len(h.open()))
	h.request(f, !awaitsResponse(f.Op), 0)
	if awaitsResponse(f.Op) {
		h.response(response, true)
	} else {
		h.acknowledge(h.next.Add(-1), h.msn, wire.AckNoCredits)
	}
	h.forget(1)
}

// ResponseReceived records data of the response to the oldest READ or atomic of this side.
func (c *RC) ResponseReceived(data []byte, last bool) { c.out.response(data, last) }

// Received records a fragment of a request of the peer, before it is executed.
func (c *RC) Received(f *fragment.Fragment, ackReq bool) { c.in.request(f, ackReq, 0) }

// OweAck is called when the request whose last fragment was received last was executed, and
// has to be acknowledged by the next call of Ack.
func (c *RC) OweAck() { c.in.owedPSN, c.in.owedMSN = c.in.next.Add(-1), c.in.msn }

// Ack records that the requests up to the last call of OweAck were acknowledged.
func (c *RC) Ack() { c.in.acknowledge(c.in.owedPSN, c.in.owedMSN, wire.AckNoCredits) }

// Refuse records that the request received last was refused. The peer may send it again.
func (c *RC) Refuse(nak wire.Syndrome) {
	h := &c.in
	if n := len(h.sent); n > h.ended && h.sent[n-1].first == h.start {
		h.sent = h.sent[:n-1]
	}
	h.next, h.msn = h.start, h.startMSN
	h.acknowledge(h.start, h.msn, nak)
}

// ResponseSent records data of the response to the oldest READ or atomic of the peer.
func (c *RC) ResponseSent(data []byte, last bool) { c.in.response(data, last) }

// A route says where packets come from and go to.
type route struct {
	tap    *Tap
	dir    Direction
	header Header
	destQP uint32
}

// begin begins a packet in the memory of Tap.Scratch. It returns false if there is no room for
// the packet in the ring.
func (r *route) begin(op wire.Opcode, payload int, num psn.Value) (p wire.Packet, ok bool) {
	if !r.tap.admit(Local, &r.header, op.Size(payload)) {
		return p, false
	}
	p = wire.Build(r.tap.Scratch(), op, payload)
	p.BTH().SetDestQP(r.destQP)
	p.BTH().SetPSN(num)
	return p, true
}

// end records the packet from begin.
func (r *route) end(p wire.Packet) { r.tap.putLocal(r.dir, &r.header, p) }

// A half has the requests in one direction of a connection, and their responses.
type half struct {
	requests, responses route
	mtu                 int
	next                psn.Value // PSN of the next request packet
	msn                 psn.Value // number of complete requests
	// PSN and number of complete requests at the begin of the last request
	start, startMSN psn.Value
	message         pieces // request that is being sent
	answer          pieces // response that is being sent
	// requests that have to be found again, the oldest first: those that await a response,
	// and if keepsAll is true also the others
	sent             []exchange
	ended            int // number of requests at the begin of sent that have ended
	keepsAll         bool
	owedPSN, owedMSN psn.Value // see RC.OweAck
}

// An exchange is a request that was sent.
type exchange struct {
	op          fragment.Op
	acked       bool   // true if the request was acknowledged, or its response has ended
	seq         uint64 // path sequence of its last fragment
	first, last psn.Value
	msn         psn.Value // number of complete requests after it
	responses   int       // number of packets of the response so far
}

// awaitsResponse reports whether a request has a response with data.
func awaitsResponse(op fragment.Op) bool {
	return op == fragment.Read || op == fragment.CompareSwap || op == fragment.FetchAdd
}

func (x *exchange) awaitsResponse() bool { return awaitsResponse(x.op) && !x.acked }

// trim forgets the oldest requests, up to the first one that has not ended.
func (h *half) trim(executed uint64) {
	n := 0
	for _, x := range h.open() {
		if x.seq >= executed || x.awaitsResponse() {
			break
		}
		n++
	}
	h.forget(n)
}

// open returns the requests that have not ended.
func (h *half) open() []exchange { return h.sent[h.ended:] }

// forget removes the n oldest requests. When half of the list is free, it moves the rest to the
// beginning.
func (h *half) forget(n int) {
	if h.ended += n; 2*h.ended >= len(h.sent) {
		h.sent, h.ended = h.sent[:copy(h.sent, h.open())], 0
	}
}

// request records the packets of a fragment of a request.
func (h *half) request(f *fragment.Fragment, ackReq bool, seq uint64) {
	if f.First() {
		h.start, h.startMSN = h.next, h.msn
		h.message.begin()
	}
	switch f.Op {
	case fragment.Read:
		if p, ok := h.requests.begin(wire.ReadRequest, 0, h.next); ok {
			p.RETH().Set(f.Addr, f.Key, f.Total)
			h.requests.end(p)
		}
		// The READ takes a PSN for each packet of its response.
		h.next = h.next.Add(max(1, int((uint64(f.Total)+uint64(h.mtu)-1)/uint64(h.mtu))))
	case fragment.CompareSwap, fragment.FetchAdd:
		h.atomic(f)
	default:
		data := f.Payload
		for p, ok := h.message.next(&data, h.mtu, f.Last()); ok; p, ok = h.message.next(&data, h.mtu, f.Last()) {
			h.data(f, &p, ackReq)
		}
	}
	if !f.Last() {
		return
	}
	h.msn = h.msn.Add(1)
	if h.keepsAll || awaitsResponse(f.Op) {
		h.sent = append(h.sent, exchange{op: f.Op, seq: seq, first: h.start, last: h.next.Add(-1), msn: h.msn})
	}
}

// atomic records an atomic request.
func (h *half) atomic(f *fragment.Fragment) {
	op := wire.CompareSwap
	if f.Op == fragment.FetchAdd {
		op = wire.FetchAdd
	}
	if p, ok := h.requests.begin(op, 0, h.next); ok {
		var operands [fragment.AtomicOperands]byte
		copy(operands[:], f.Payload)
		p.AtomicETH().Set(f.Addr, f.Key, binary.BigEndian.Uint64(operands[:]), binary.BigEndian.Uint64(operands[8:]))
		h.requests.end(p)
	}
	h.next = h.next.Add(1)
}

// data records a packet of a SEND or WRITE, with the given payload.
func (h *half) data(f *fragment.Fragment, d *piece, ackReq bool) {
	if p, ok := h.requests.begin(dataOpcode(f, d.first, d.last), d.len(), h.next); ok {
		p.BTH().SetAckReq(d.last && ackReq)
		p.BTH().SetSolicited(d.last && f.Flags&fragment.Solicited != 0)
		if r := p.RETH(); r != nil {
			r.Set(f.Addr, f.Key, f.Total)
		}
		if i := p.ImmDt(); i != nil {
			i.Set(f.Imm)
		}
		if i := p.IETH(); i != nil {
			i.Set(f.Imm)
		}
		d.copyTo(p.Payload())
		h.requests.end(p)
	}
	h.next = h.next.Add(1)
}

// dataOpcode returns the opcode of a packet of a SEND or WRITE.
func dataOpcode(f *fragment.Fragment, first, last bool) wire.Opcode {
	write, imm, inv := f.Op == fragment.Write, f.Flags&fragment.Imm != 0, f.Op == fragment.SendInv
	op := wire.SendMiddle
	switch {
	case first && last && inv:
		return wire.SendOnlyInv
	case last && inv:
		return wire.SendLastInv
	case first && last && imm:
		op = wire.SendOnlyImm
	case first && last:
		op = wire.SendOnly
	case last && imm:
		op = wire.SendLastImm
	case last:
		op = wire.SendLast
	case first:
		op = wire.SendFirst
	}
	if write {
		op += wire.WriteFirst - wire.SendFirst // WRITEs have the same opcodes in the same order.
	}
	return op
}

// response records data of the response to the oldest READ or atomic without one.
func (h *half) response(data []byte, last bool) {
	open := h.open()
	i := slices.IndexFunc(open, func(x exchange) bool { return x.awaitsResponse() })
	if i < 0 {
		return
	}
	x := &open[i]
	if x.op == fragment.Read {
		for p, ok := h.answer.next(&data, h.mtu, last); ok; p, ok = h.answer.next(&data, h.mtu, last) {
			h.readResponse(x, &p)
		}
	} else if p, ok := h.responses.begin(wire.AtomicAcknowledge, 0, x.first); ok {
		var old [8]byte // in the byte order of the host
		copy(old[:], data)
		p.AETH().Set(wire.AckNoCredits, x.msn)
		p.AtomicAckETH().Set(binary.NativeEndian.Uint64(old[:]))
		h.responses.end(p)
	}
	if !last {
		return
	}
	h.answer.begin()
	x.acked = true
	if !h.keepsAll {
		h.forget(1)
	}
}

// readResponse records a packet of the response to a READ, with the given payload.
func (h *half) readResponse(x *exchange, d *piece) {
	op := wire.ReadResponseMiddle
	switch {
	case d.first && d.last:
		op = wire.ReadResponseOnly
	case d.first:
		op = wire.ReadResponseFirst
	case d.last:
		op = wire.ReadResponseLast
	}
	if p, ok := h.responses.begin(op, d.len(), x.first.Add(x.responses)); ok {
		if e := p.AETH(); e != nil {
			e.Set(wire.AckNoCredits, x.msn)
		}
		d.copyTo(p.Payload())
		h.responses.end(p)
	}
	x.responses++
}

// acknowledge records an ACK or NAK for the packet with a PSN.
func (h *half) acknowledge(num, msn psn.Value, s wire.Syndrome) {
	if p, ok := h.responses.begin(wire.Acknowledge, 0, num); ok {
		p.AETH().Set(s, msn)
		h.responses.end(p)
	}
}

// pieces cuts the payload of a message, which comes in fragments of any length, into the
// payloads of packets.
type pieces struct {
	rest  []byte // payload that does not fill a packet yet
	begun bool   // true after the first packet
	ended bool   // true after the last packet, until begin
}

// A piece is the payload of a packet, in two parts.
type piece struct {
	a, b        []byte
	first, last bool // true for the first and for the last packet of its message
}

func (p *piece) len() int { return len(p.a) + len(p.b) }

func (p *piece) copyTo(payload []byte) { copy(payload[copy(payload, p.a):], p.b) }

func (s *pieces) begin() { s.rest, s.begun, s.ended = s.rest[:0], false, false }

// next takes the payload of the next packet off a fragment. It is valid until the next call. If
// the fragment does not fill another packet, next keeps the rest of it and returns false. The
// parameter last is true for the last fragment of the message.
//
// A function that next would call for each packet would make the memory of all payloads escape
// to the heap, even without a capture.
func (s *pieces) next(fragment *[]byte, mtu int, last bool) (p piece, ok bool) {
	n, data := len(s.rest)+len(*fragment), *fragment
	switch {
	case n > mtu || n == mtu && !last:
		data = data[:mtu-len(s.rest)]
	case !last:
		s.rest = append(s.rest, data...)
		*fragment = nil
		return p, false
	case s.ended:
		return p, false
	default:
		s.ended = true
	}
	p = piece{s.rest, data, !s.begun, s.ended}
	s.rest, s.begun, *fragment = s.rest[:0], true, (*fragment)[len(data):]
	return p, true
}
