//go:build linux

package rcpath

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// nakState is the state of the NAK for the expected packet.
type nakState uint8

const (
	// nakNone: there is no NAK for the expected packet. A connection begins in this
	// state, and returns to it when that packet arrives.
	nakNone nakState = iota
	// nakDue: the next call of shard.drive() sends a NAK or an RNR NAK. The state is
	// entered when a packet is missing or can not be executed.
	nakDue
	// nakSent: the NAK was sent. Packets that were in flight are dropped without another
	// NAK.
	nakSent
)

// nakOutcomes has the outcome for each NAK code of a failed request.
var nakOutcomes = [...]qp.Outcome{
	wire.NAKInvalidRequest:    qp.OutcomeInvalidRequest,
	wire.NAKRemoteAccess:      qp.OutcomeAccessError,
	wire.NAKRemoteOperational: qp.OutcomeOperationError,
}

// nakCode returns the NAK code of a failed request.
func nakCode(a qp.Outcome) wire.NAKCode { return wire.NAKCode(slices.Index(nakOutcomes[:], a)) }

// responder is the responder of an Conn. Its sequences count the peer's request
// packets. A READ takes one sequence for each packet of its response.
type responder struct {
	base      psn.Value // PSN of the peer's first request
	expected  uint64    // sequence of the next request packet to be executed
	dataEnd   uint64    // sequence after the last executed SEND or WRITE packet
	msn       psn.Value // message sequence number: number of complete messages
	resources respResources

	nakState nakState
	nak      wire.Syndrome // syndrome of the last NAK that was due
	gapPoll  uint32        // value of packets.Demux.Polls when the last gap was found
	// sequence of the first duplicate since the last new request, plus 1; 0 if there was
	// no duplicate
	duplicateEnd uint64
	fatal        qp.Outcome // outcome of the request that ends the queue pair, or qp.OutcomeAck
}

func (r *responder) init(attr *verbs.QPAttr) {
	r.base = psn.Value(attr.RQPSN)
	r.resources = newRespResources(int(attr.MaxDestRdAtomic))
}

// accepts returns the sequence of a request packet. It returns false if the sequence is
// negative, or an earlier request has failed.
func (r *responder) accepts(v psn.Value) (seq uint64, ok bool) {
	seq, ok = packets.NearestSeq(v, r.base, r.expected)
	return seq, ok && r.fatal == qp.OutcomeAck
}

// psn returns the PSN of a request packet.
func (r *responder) psn(seq uint64) psn.Value { return packets.PSNOf(r.base, seq) }

func (r *responder) onExpected() { r.nakState, r.duplicateEnd = nakNone, 0 }

// scheduleNAK records that a NAK or an RNR NAK for the expected packet has to be sent.
func (r *responder) scheduleNAK(s wire.Syndrome) { r.nak, r.nakState = s, nakDue }

// awaitsMissing reports whether a sequence error NAK is due and was not sent yet. The
// missing packet may still arrive.
func (r *responder) awaitsMissing() bool {
	return r.nakState == nakDue && r.nak == wire.NAK(wire.NAKSequence)
}

// fail schedules a fatal NAK. The queue pair fails after the NAK is sent.
func (r *responder) fail(a qp.Outcome) {
	r.fatal = a
	r.scheduleNAK(wire.NAK(nakCode(a)))
}

// executedData records that the expected packet of a SEND or WRITE was executed. The
// parameter ends is true for the last packet of a message.
func (r *responder) executedData(ends bool) {
	r.advance(1, ends)
	r.dataEnd = r.expected
}

// executedRead records the execution of the expected READ. The response has n packets.
func (r *responder) executedRead(memory qp.MemoryRange, n uint64) {
	res := r.addResource(n)
	res.source, res.unsent = memory, memory
}

// executedAtomic records the execution of the expected atomic.
func (r *responder) executedAtomic(old uint64) {
	res := r.addResource(1)
	res.atomic, res.result = true, old
}

// addResource adds the resource of the expected request. The response has n packets.
func (r *responder) addResource(n uint64) *respResource {
	res := r.resources.add()
	res.first, res.last = r.expected, r.expected+n-1
	res.start, res.next, res.end = res.first, res.first, res.last
	r.advance(n, true)
	return res
}

// advance records the execution of a packet of n sequences. The parameter ends is true
// for the last packet of a message.
func (r *responder) advance(n uint64, ends bool) {
	r.expected += n
	if ends {
		r.msn = r.msn.Add(1)
	}
}

// onDuplicate is called when an executed packet arrives again. It remembers the first
// such packet. If the peer then sends that packet once more, the response was probably
// lost, and onDuplicate returns true.
func (r *responder) onDuplicate(seq uint64) (again bool) {
	if r.duplicateEnd == 0 {
		r.duplicateEnd = seq + 1
		return false
	}
	return r.duplicateEnd == seq+1
}

// repeatAtomic makes the response of the atomic seq due again. It returns false if the
// response is not known.
func (r *responder) repeatAtomic(seq uint64) bool {
	res, index := r.resources.find(seq)
	if res == nil || !res.atomic {
		return false
	}
	r.resources.repeatFrom(index, seq, seq)
	return true
}

// repeatRead makes n packets of a READ's response due again, from the sequence seq on.
// The parameter memory must be the corresponding part of the memory of the first request.
// Otherwise, or if the READ is not known, repeatRead returns false.
func (r *responder) repeatRead(memory qp.MemoryRange, seq, n uint64, mtu uint32) bool {
	res, index := r.resources.find(seq)
	if res == nil || res.atomic {
		return false
	}
	offset := uint32(seq-res.first) * mtu
	if memory.Addr != res.source.Addr+uint64(offset) || memory.Key != res.source.Key || memory.Left > res.source.Left-offset {
		return false
	}
	res.unsent = memory
	r.resources.repeatFrom(index, seq, seq+n-1)
	return true
}

// responseSent records that the next packet of a response was sent. It reports whether
// this packet acknowledges all executed SENDs and WRITEs.
func (r *responder) responseSent(res *respResource) (acknowledges bool) {
	acknowledges = res.next >= r.dataEnd
	res.pending = res.next != res.end
	res.sent = res.sent || !res.pending && res.end == res.last
	res.next++
	return acknowledges
}
