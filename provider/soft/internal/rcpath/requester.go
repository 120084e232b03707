//go:build linux

package rcpath

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// maxConnWindow is the largest number of unacknowledged packets of a connection, as
	// in rxe (RXE_MAX_UNACKED_PSNS).
	maxConnWindow = 128
	// In a long message, at least every ackEveryPackets-th packet has the AckReq bit.
	// Arbitrary.
	ackEveryPackets = 32
	// readPiece is how many response packets of a READ are requested at once. The socket
	// needs room for all of them.
	readPiece = 32
)

// A requester counts request packets. The first packet has the sequence 0. The fields
// always keep this order: ackedEnd <= seq <= sentEnd <= ackedEnd + maxConnWindow. The
// zero value is ready to use.
type requester struct {
	ackedEnd        uint64 // all sequences below ackedEnd were acknowledged by the peer
	seq             uint64 // sequence of the next packet to be sent
	sentEnd         uint64 // all sequences below sentEnd were sent at least once
	sinceAckRequest int    // number of packets sent since the last packet with the AckReq bit
	readsInFlight   int    // number of READ requests and atomics without a complete response
	blocked         bool   // true if the last attempt to send found no room in the packets.Conn
	awaitsRoom      bool   // true if the last attempt found no room in the congestion window
	atomicResult    [8]byte
}

// unacked returns how many packets before seq are not acknowledged.
func (r *requester) unacked() uint64 { return r.seq - r.ackedEnd }

// wasSent reports whether the next packet was sent before.
func (r *requester) wasSent() bool { return r.seq < r.sentEnd }

// sent records that a packet of n sequences was sent, with or without the AckReq bit.
func (r *requester) sent(n uint64, ackReq bool) {
	r.seq += n
	r.sentEnd = max(r.sentEnd, r.seq)
	if r.sinceAckRequest++; ackReq {
		r.sinceAckRequest = 0
	}
}

// acknowledge records that all sequences below end were acknowledged.
func (r *requester) acknowledge(end uint64) {
	r.ackedEnd, r.seq = end, max(r.seq, end)
}

// goBack makes the oldest unacknowledged packet the next one to be sent.
func (r *requester) goBack() {
	r.seq, r.readsInFlight, r.sinceAckRequest = r.ackedEnd, 0, 0
}

// responseFrom returns the sequence of the next response packet of w, a READ or atomic.
func (r *requester) responseFrom(w *qp.WQE) uint64 { return max(r.ackedEnd, w.RC.FirstSeq) }

// readDone records the complete response of an atomic or of one piece of a READ. The
// response may arrive after goBack has set readsInFlight to 0. So readsInFlight may be 0
// already.
func (r *requester) readDone() {
	if r.readsInFlight > 0 {
		r.readsInFlight--
	}
}

// sendRequests sends what the congestion window and the credits allow. It returns false
// if the packets.Conn is full.
func (c *Conn) sendRequests() bool {
	c.req.blocked = false
	for w := c.q.NextToSend(); w != nil; w = c.q.NextToSend() {
		if !c.sendRequest(w) {
			break
		}
	}
	c.req.awaitsRoom = c.cong.waiting
	c.startRetransmitTimer()
	if !c.cong.waiting {
		c.cong.shared.resume()
	}
	return !c.req.blocked
}

// sendRequest sends the packets of w from c.req.seq on, and returns false if some are
// left.
func (c *Conn) sendRequest(w *qp.WQE) bool {
	if c.q.NextIsNew() {
		w.RC.FirstSeq, w.RC.MessageNumber = c.req.seq, c.credits.messagesSent+c.messageCount(w)
	}
	last := w.RC.FirstSeq + c.packetCount(w.Total) - 1
	for c.req.seq <= last {
		var ok bool
		switch {
		case w.Op == verbs.OpRead:
			ok = c.sendReadRequest(w, last)
		case w.Op.Atomic():
			ok = c.sendAtomicRequest(w)
		default:
			ok = c.sendData(w, last)
		}
		if !ok {
			return false
		}
		c.credits.messagesSent = max(c.credits.messagesSent, w.RC.MessageNumber)
		c.q.MarkBegun(w)
	}
	c.q.MarkSent(w, last)
	return true
}

// sendData sends the next packet of a SEND or WRITE.
func (c *Conn) sendData(w *qp.WQE, last uint64) bool {
	if !c.windowAllows(1) || !c.credits.allows(w, &c.req) {
		return false
	}
	offset := c.offset(w)
	length := min(w.Total-offset, c.mtu)
	p, ok := c.requestPacket(dataOpcode(w, c.req.seq == w.RC.FirstSeq, c.req.seq == last), int(length))
	if !ok {
		return false
	}
	if length > 0 && !c.q.Gather(p.Payload(), w, offset) {
		// The memory region has been closed since the check of the request.
		c.q.FailRequest(w, verbs.StatusLocProtErr)
		return false
	}
	if h := p.RETH(); h != nil {
		h.Set(w.Addr, w.Key, w.Total)
	}
	if h := p.ImmDt(); h != nil {
		h.Set(w.Imm)
	}
	if h := p.IETH(); h != nil {
		h.Set(w.Key)
	}
	p.BTH().SetSolicited(c.req.seq == last && w.Flags&verbs.SendSolicited != 0)
	short := c.credits.lacks(w)
	if short {
		c.credits.probeSent()
	}
	c.pushRequest(p, 1, c.req.seq == last || short)
	return true
}

// dataOpcode returns the opcode of a packet of a SEND or WRITE.
func dataOpcode(w *qp.WQE, first, last bool) wire.Opcode {
	op := wire.SendFirst
	if w.Op == verbs.OpWrite || w.Op == verbs.OpWriteImm {
		op = wire.WriteFirst
	}
	// The opcodes of WRITE have the same order as those of SEND.
	switch {
	case last && w.Op == verbs.OpSendInv && first:
		return wire.SendOnlyInv
	case last && w.Op == verbs.OpSendInv:
		return wire.SendLastInv
	case first && last:
		op += wire.SendOnly - wire.SendFirst
	case last:
		op += wire.SendLast - wire.SendFirst
	case !first:
		op += wire.SendMiddle - wire.SendFirst
	}
	if last && (w.Op == verbs.OpSendImm || w.Op == verbs.OpWriteImm) {
		op += wire.SendOnlyImm - wire.SendOnly
	}
	return op
}

// sendReadRequest requests the next piece of a READ's response. After a loss it requests
// the rest of a piece (IBTA vol. 1, 9.7.5.1.2).
func (c *Conn) sendReadRequest(w *qp.WQE, last uint64) bool {
	n := min(readPiece-(c.req.seq-w.RC.FirstSeq)%readPiece, last+1-c.req.seq)
	if c.req.readsInFlight >= int(c.q.Attributes().MaxRdAtomic) || !c.windowAllows(n) {
		return false
	}
	p, ok := c.requestPacket(wire.ReadRequest, 0)
	if !ok {
		return false
	}
	offset := c.offset(w)
	p.RETH().Set(w.Addr+uint64(offset), w.Key, min(w.Total-offset, uint32(n)*c.mtu))
	c.req.readsInFlight++
	c.pushRequest(p, n, true)
	return true
}

func (c *Conn) sendAtomicRequest(w *qp.WQE) bool {
	if c.req.readsInFlight >= int(c.q.Attributes().MaxRdAtomic) || !c.windowAllows(1) {
		return false
	}
	op, swapAdd, compare := wire.FetchAdd, w.Compare, uint64(0)
	if w.Op == verbs.OpCompareSwap {
		op, swapAdd, compare = wire.CompareSwap, w.Swap, w.Compare
	}
	p, ok := c.requestPacket(op, 0)
	if !ok {
		return false
	}
	p.AtomicETH().Set(w.Addr, w.Key, swapAdd, compare)
	c.req.readsInFlight++
	c.pushRequest(p, 1, true)
	return true
}

// offset returns the position in w of the first byte of the packet c.req.seq.
func (c *Conn) offset(w *qp.WQE) uint32 { return uint32(c.req.seq-w.RC.FirstSeq) << c.mtuShift }

// requestPacket calls newPacket for the request packet c.req.seq.
func (c *Conn) requestPacket(op wire.Opcode, payload int) (wire.Packet, bool) {
	p, ok := c.newPacket(op, payload, packets.PSNOf(c.ownBase(), c.req.seq))
	c.req.blocked = !ok
	return p, ok
}

// ownBase returns the PSN of the first request packet.
func (c *Conn) ownBase() psn.Value { return psn.Value(c.q.Attributes().SQPSN) }

// windowAllows reports whether n more packets may be in flight. In recoveryTailProbe
// only the probe may be in flight.
func (c *Conn) windowAllows(n uint64) bool {
	if c.req.unacked()+n > maxConnWindow || c.cong.inFlight > 0 && c.retry.tailProbing() {
		return false
	}
	return c.cong.allows(n)
}

// wantsAck reports whether a packet of n sequences needs the AckReq bit. These packets
// need the bit:
//
//   - a tail probe
//   - at least every ackEveryPackets-th packet, or one packet in each quarter of the
//     window if a quarter has fewer packets
//   - a packet that fills the window
func (c *Conn) wantsAck(n uint64) bool {
	interval := min(ackEveryPackets, c.cong.quarterWindow())
	return c.retry.tailProbing() || c.req.sinceAckRequest+1 >= interval || c.cong.fills(n)
}

// pushRequest queues a request packet of n sequences. It sets the AckReq bit if ask is
// true or wantsAck returns true.
func (c *Conn) pushRequest(p wire.Packet, n uint64, ask bool) {
	ask = ask || c.wantsAck(n)
	if ask {
		p.BTH().SetAckReq(true)
	}
	c.push(p)
	c.req.sent(n, ask)
	c.updateInFlight()
	c.acks.requestSent()
}

// updateInFlight tells the congestion control how many packets are in flight. While the
// RNR timer runs, and after a failure, the number is 0.
func (c *Conn) updateInFlight() {
	n := c.req.unacked()
	if c.q.AwaitsRNRTimer() || !c.q.IsServing() {
		n = 0
	}
	c.cong.setInFlight(n)
}

// receiveResponse processes a response packet. It drops responses to packets that were
// not sent yet (IBTA vol. 1, 9.7.5.1.1).
func (c *Conn) receiveResponse(p wire.Packet) {
	seq, ok := packets.NearestSeq(p.BTH().PSN(), c.ownBase(), c.req.ackedEnd)
	if !ok || seq >= c.req.sentEnd {
		return
	}
	if h := p.AETH(); h != nil && c.credits.Receives && c.credits.update(h) {
		c.schedule()
	}
	if p.Opcode().Kind() == wire.KindAcknowledge {
		c.receiveAck(p.AETH().Syndrome(), seq)
	} else {
		c.receiveData(p, seq)
	}
}

// receiveAck processes an ACK or NAK for the packet seq. An ACK for packets that were
// acknowledged before changes nothing. Packets with reserved syndromes are dropped.
func (c *Conn) receiveAck(syndrome wire.Syndrome, seq uint64) {
	switch kind := syndrome.Kind(); {
	case kind == wire.SyndromeAck:
		c.ackUpTo(seq + 1)
	case seq < c.req.ackedEnd: // The NAK is a delayed duplicate.
	case kind == wire.SyndromeRNRNAK:
		c.receiveRNRNAK(syndrome.RNRTimer(), seq)
	case kind == wire.SyndromeNAK:
		c.receiveNAK(syndrome.NAKCode(), seq)
	}
}

// ackUpTo processes an acknowledgement of all requests below seq. If a response is
// missing, ackUpTo requests it again (IBTA vol. 1, 9.7.5.1.4), and returns false. It
// also returns false if the queue pair has failed.
func (c *Conn) ackUpTo(seq uint64) bool {
	known := seq
	if w := c.q.ExpectedResponse(); w != nil {
		known = min(seq, c.req.responseFrom(w))
	}
	if known > c.req.ackedEnd {
		c.onProgress(known)
	}
	if known < seq && c.q.IsServing() {
		c.onLoss()
	}
	return known >= seq && c.q.IsServing()
}

// onProgress processes a new acknowledgement of all packets below seq.
func (c *Conn) onProgress(seq uint64) {
	c.req.acknowledge(seq)
	c.q.Acknowledged(seq)
	if !c.q.IsServing() {
		return
	}
	before := c.cong.inFlight
	c.updateInFlight()
	c.cong.grow(before - c.cong.inFlight)
	c.cong.shared.resume()
	if probed := c.retry.onProgress(); probed > 0 && c.req.ackedEnd < c.req.sentEnd {
		// The peer has received the tail probe, but not the packets sent after it.
		c.cong.shrink(probed)
	}
	if c.q.HasUnsent() {
		c.schedule()
	}
}

// receiveData processes a response packet of the oldest READ or atomic. The packet's
// position follows from its sequence. The opcode does not show it, because rxe repeats
// packets with the opcode MIDDLE.
func (c *Conn) receiveData(p wire.Packet, seq uint64) {
	w := c.q.ExpectedResponse()
	if w == nil || seq < c.req.responseFrom(w) {
		return // The response is a delayed duplicate.
	}
	if seq > c.req.responseFrom(w) {
		c.onLoss() // The response packet before this one was lost.
		return
	}
	if !c.ackUpTo(seq) {
		return
	}
	op, data := fragment.ReadData, p.Payload()
	if p.Opcode().Kind() == wire.KindAtomicAcknowledge {
		// The result is stored in the byte order of the processor.
		binary.NativeEndian.PutUint64(c.req.atomicResult[:], p.AtomicAckETH().Original())
		op, data = fragment.AtomicResult, c.req.atomicResult[:]
	}
	last := seq == w.LastSeq
	if !c.q.Response(op, data, last) || !last && len(data) != int(c.mtu) {
		c.q.OnInvalidResponse()
		return
	}
	if last || (seq+1-w.RC.FirstSeq)%readPiece == 0 {
		c.req.readDone()
	}
	c.onProgress(seq + 1)
}

// receiveRNRNAK processes an RNR NAK for the packet seq. The parameter code says how
// long to wait before the next attempt (IBTA vol. 1, 9.7.5.2.8).
func (c *Conn) receiveRNRNAK(code uint8, seq uint64) {
	if !c.q.AwaitsRNRTimer() && c.ackUpTo(seq) {
		c.q.OnRNR(code)
		c.updateInFlight()
	}
}

// receiveNAK processes a NAK for the packet seq.
func (c *Conn) receiveNAK(code wire.NAKCode, seq uint64) {
	switch {
	case int(code) >= len(nakOutcomes):
		return // The code is reserved, or RC does not use it.
	case c.q.AwaitsRNRTimer() && code == wire.NAKSequence:
		// The RNR timer will repeat all unacknowledged packets.
		return
	case !c.ackUpTo(seq):
		return
	case code != wire.NAKSequence:
		c.q.OnNAK(nakOutcomes[code])
	default:
		c.q.Counts().Inc(counters.RcvdSeqErr)
		if c.retry.state != recoveryResend && c.countRetry() {
			c.onLoss()
		}
	}
}
