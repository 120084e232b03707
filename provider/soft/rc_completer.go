//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
)

// receiveResponse processes a response packet. It drops responses to packets that were
// not sent yet (IBTA vol. 1, 9.7.5.1.1).
func (c *rcConn) receiveResponse(p wire.Packet) {
	seq, ok := nearestSeq(p.BTH().PSN(), c.ownBase(), c.req.ackedEnd)
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

// receiveAck processes an ACK or NAK for the packet seq. It drops packets with reserved
// syndromes.
func (c *rcConn) receiveAck(syndrome wire.Syndrome, seq uint64) {
	switch kind := syndrome.Kind(); {
	case kind == wire.SyndromeAck:
		c.ackUpTo(seq + 1)
	case seq < c.req.ackedEnd: // The packet is a delayed duplicate.
	case kind == wire.SyndromeRNRNAK:
		c.receiveRNRNAK(syndrome.RNRTimer(), seq)
	case kind == wire.SyndromeNAK:
		c.receiveNAK(syndrome.NAKCode(), seq)
	}
}

// ackUpTo processes an acknowledgement of all requests below seq. If a response is
// missing, ackUpTo requests it again (IBTA vol. 1, 9.7.5.1.4), and returns false. It
// also returns false if the queue pair has failed.
func (c *rcConn) ackUpTo(seq uint64) bool {
	known := seq
	if w := c.q.expectedResponse(); w != nil {
		known = min(seq, c.req.responseFrom(w))
	}
	if known > c.req.ackedEnd {
		c.onProgress(known)
	}
	if known < seq && c.q.isServing() {
		c.onLoss()
	}
	return known >= seq && c.q.isServing()
}

// onProgress processes a new acknowledgement of all packets below seq.
func (c *rcConn) onProgress(seq uint64) {
	c.req.acknowledge(seq)
	c.q.acknowledged(seq)
	if !c.q.isServing() {
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
	if c.q.hasUnsent() {
		c.schedule()
	}
}

// receiveData processes a response packet of the oldest READ or atomic. The packet's
// position follows from its sequence. The opcode does not show it, because rxe repeats
// packets with the opcode MIDDLE.
func (c *rcConn) receiveData(p wire.Packet, seq uint64) {
	w := c.q.expectedResponse()
	if w == nil || seq < c.req.responseFrom(w) {
		return // The packet is a delayed duplicate.
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
	last := seq == w.lastSeq
	if !c.q.response(op, data, last) || !last && len(data) != int(c.mtu) {
		c.q.onInvalidResponse()
		return
	}
	if last || (seq+1-w.rc.firstSeq)%readPiece == 0 {
		c.req.readDone()
	}
	c.onProgress(seq + 1)
}

// receiveRNRNAK processes an RNR NAK for the packet seq. The parameter code says how
// long to wait before the next attempt (IBTA vol. 1, 9.7.5.2.8).
func (c *rcConn) receiveRNRNAK(code uint8, seq uint64) {
	if !c.q.awaitsRNRTimer() && c.ackUpTo(seq) {
		c.q.onRNR(code)
		c.updateInFlight()
	}
}

// receiveNAK processes a NAK for the packet seq.
func (c *rcConn) receiveNAK(code wire.NAKCode, seq uint64) {
	switch {
	case int(code) >= len(nakOutcomes):
		return // The code is reserved, or RC does not use it.
	case c.q.awaitsRNRTimer() && code == wire.NAKSequence:
		// The RNR timer will repeat all unacknowledged packets.
		return
	case !c.ackUpTo(seq):
		return
	case code != wire.NAKSequence:
		c.q.onNAK(nakOutcomes[code])
	default:
		c.q.counts().Inc(counters.RcvdSeqErr)
		if c.retry.state != recoveryResend && c.countRetry() {
			c.onLoss()
		}
	}
}
