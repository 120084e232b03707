//go:build linux

package rcpath

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
)

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

// receiveAck processes an ACK or NAK for the packet seq. It drops packets with reserved
// syndromes.
func (c *Conn) receiveAck(syndrome wire.Syndrome, seq uint64) {
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
