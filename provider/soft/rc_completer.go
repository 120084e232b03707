//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// receiveResponse takes a response to an own request. One about what was never
// sent is dropped (IBTA vol. 1, 9.7.5.1.1).
func (c *rcConn) receiveResponse(p wire.Packet) {
	seq, ok := nearestSeq(p.BTH().PSN(), c.ownBase(), c.q.responded)
	if !ok || seq >= c.sentEnd {
		return
	}
	if h := p.AETH(); h != nil && c.receives {
		c.updateCredits(h)
	}
	if p.Opcode().Kind() == wire.KindAcknowledge {
		c.receiveAck(p.AETH().Syndrome(), seq)
	} else {
		c.receiveData(p, seq)
	}
}

// acknowledgement takes an ACK or a NAK about the packet seq. Reserved syndromes
// are dropped.
func (c *rcConn) receiveAck(syndrome wire.Syndrome, seq uint64) {
	switch kind := syndrome.Kind(); {
	case kind == wire.SyndromeAck:
		c.ackUpTo(seq + 1)
	case seq < c.q.responded: // a late copy
	case kind == wire.SyndromeRNRNAK:
		c.receiveRNRNAK(syndrome.RNRTimer(), seq)
	case kind == wire.SyndromeNAK:
		c.receiveNAK(syndrome.NAKCode(), seq)
	}
}

// ackUpTo takes that the peer has carried out everything in front of seq, and
// reports whether that is all there is to it. It is not when a READ or atomic
// among them has no response: that was lost then (IBTA vol. 1, 9.7.5.1.4).
func (c *rcConn) ackUpTo(seq uint64) bool {
	known := seq
	if w := c.q.expectedResponse(); w != nil {
		known = min(seq, max(c.q.responded, w.firstSeq))
	}
	if known > c.q.responded {
		c.q.acknowledged(known)
		c.onProgress()
	}
	if known < seq {
		c.onLoss()
	}
	return known >= seq && c.q.isServing()
}

// progress follows qp.acked, which has moved.
func (c *rcConn) onProgress() {
	before := c.inFlight
	c.seq = max(c.seq, c.q.responded)
	c.updateInFlight()
	c.grow(before - c.inFlight)
	c.shared.resume()
	if c.probedInFlight > 0 && c.q.responded < c.sentEnd {
		c.shrink(c.probedInFlight) // the packets after the acknowledged one were lost
	}
	c.probedInFlight = 0
	c.recovering, c.retries, c.progressed = false, 0, true
	if c.q.isServing() && c.q.sq.next != c.q.sq.tail {
		c.schedule()
	}
}

// response takes data for the oldest READ or atomic. Any opcode is right at the
// sequence that is expected: rxe goes on with MIDDLE where it was asked again
// from the middle.
func (c *rcConn) receiveData(p wire.Packet, seq uint64) {
	w := c.q.expectedResponse()
	if w == nil || seq < max(c.q.responded, w.firstSeq) {
		return // a late copy
	}
	if seq > max(c.q.responded, w.firstSeq) {
		c.onLoss() // the one before it
		return
	}
	if !c.ackUpTo(seq) {
		return
	}
	op, data := frameReadData, p.Payload()
	if p.Opcode().Kind() == wire.KindAtomicAcknowledge {
		// It goes to the memory as the processor would have stored it.
		binary.NativeEndian.PutUint64(c.atomicResult[:], p.AtomicAckETH().Original())
		op, data = frameAtomicResult, c.atomicResult[:]
	}
	last := seq == w.lastSeq
	if !c.q.response(op, data, last) || !last && len(data) != int(c.mtu) {
		c.q.failOldest(verbs.StatusBadRespErr)
		return
	}
	if c.readsInFlight > 0 && (last || (seq+1-w.firstSeq)%readPiece == 0) {
		c.readsInFlight--
	}
	c.q.acknowledged(seq + 1)
	c.onProgress()
}

// onRNR takes an RNR NAK about the packet seq.
func (c *rcConn) receiveRNRNAK(code uint8, seq uint64) {
	if !c.q.waitingRNR && c.ackUpTo(seq) {
		c.q.onRNR(code)
		c.updateInFlight()
	}
}

// refused takes a NAK about the packet seq.
func (c *rcConn) receiveNAK(code wire.NAKCode, seq uint64) {
	switch {
	case code > wire.NAKRemoteOperational:
		return // reserved, or not of RC
	case c.q.waitingRNR && code == wire.NAKSequence:
		return // about what was in flight behind the packet that has to wait
	case !c.ackUpTo(seq):
		return
	case code != wire.NAKSequence:
		c.q.onNAK(outcomeInvalidRequest + outcome(code-wire.NAKInvalidRequest))
	default:
		c.q.shard.counts.inc(rcvdSeqErr)
		if !c.recovering && c.countRetry() {
			c.onLoss()
		}
	}
}
