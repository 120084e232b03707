//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// creditFlow says which side uses end-to-end flow control. Connection management has
// negotiated it. A side that does not use it advertises infinite credits (IBTA vol. 1,
// 12.6.7), and its peer may send without limit.
type creditFlow struct {
	sends    bool // true if this side advertises its receive buffers
	receives bool // true if the peer advertises its receive buffers
}

// probeDelay is how long a requester without credits waits for an advertisement before
// it sends a message as a probe. The acknowledgement with the advertisement may be lost,
// and not every peer sends one. The time is arbitrary.
const probeDelay = 500 * time.Microsecond

// rcCredits is end-to-end flow control (IBTA vol. 1, 9.7.7.2). In each ACK a responder
// advertises how many receive buffers it has after the messages that it has completed. A
// requester that respects this gets no RNR NAK.
//
// Messages count from 1. READs, WRITEs and atomics count too, although they take no
// buffer.
type rcCredits struct {
	creditFlow
	messagesSent uint64 // number of the last message that this side has sent
	limit        uint64 // number of the last message for which the peer has advertised a buffer
	probing      bool   // true if one message may be sent without a credit, as a probe
	probe        timer
	advertised   psn.Value // number of the peer's last message for which a buffer was advertised
}

// init prepares the credits of a connection. The first message may be sent without a
// credit.
func (c *rcCredits) init(q *qp, fire func()) {
	c.creditFlow = q.dev.bindings.flow(q.num)
	// Other queue pairs use the buffers of an SRQ too, so they are not advertised.
	c.sends = c.sends && !q.sharesReceives()
	c.probing = true
	c.probe.init(q.shard, fire)
}

// messageNumber returns the number of a message that is about to be sent. Each piece of
// a READ is a message for the peer; the number is that of the last piece.
func (c *rcConn) messageNumber(w *wqe) uint64 {
	if w.op != verbs.OpRead {
		return c.messagesSent + 1
	}
	return c.messagesSent + (c.packetCount(w.total)+readPiece-1)/readPiece
}

// lacksCredit reports whether w takes a receive buffer of the peer that the peer has not
// advertised.
func (c *rcConn) lacksCredit(w *wqe) bool {
	return c.receives && w.messageNumber > c.limit && w.op != verbs.OpWrite
}

// creditAllows reports whether the packet with sequence c.seq, of a SEND or WRITE, may
// be sent. Without a credit a SEND sends its first packet as a probe, when all packets
// before it are acknowledged. It sends the rest when the first packet is acknowledged,
// because the peer has then taken a buffer. A WRITE with immediate data is sent
// completely as a probe, because it takes the buffer at its last packet. Packets that
// were sent before may be sent again.
func (c *rcConn) creditAllows(w *wqe) bool {
	switch {
	case !c.lacksCredit(w) || c.seq < c.sentEnd:
		return true
	case c.seq > w.firstSeq:
		return w.op == verbs.OpWriteImm || c.ackedEnd > w.firstSeq
	case c.seq > c.ackedEnd:
		// The acknowledgement of an earlier packet will contain an advertisement.
		return false
	case !c.probing && !c.probe.Running():
		c.probe.start(probeDelay)
	}
	return c.probing
}

// onProbeTimer is called when no advertisement has arrived for probeDelay.
func (c *rcConn) onProbeTimer() {
	c.probing = true
	c.transmit()
}

// updateCredits processes the advertisement in an AETH. A NAK contains no credits. But
// it reports messages as completed, and these need no credit any more.
func (c *rcConn) updateCredits(h *wire.AETH) {
	n, _ := h.Syndrome().Credits()
	completed, ok := nearestSeq(h.MSN(), 0, c.messagesSent)
	switch {
	case h.Syndrome() == wire.AckNoCredits:
		c.receives = false // The credits are infinite, for the rest of the connection.
	case !ok || completed > c.messagesSent || completed+uint64(n) <= c.limit:
		return // The advertisement is invalid, or older than an earlier one.
	default:
		c.limit = completed + uint64(n)
	}
	c.probe.stop()
	c.schedule()
}

// ack returns the syndrome of an ACK for all executed requests. The buffer of a message
// that is not complete counts as free, because the MSN does not include that message.
func (c *rcConn) ack() wire.Syndrome {
	if !c.sends {
		return wire.AckNoCredits
	}
	s := wire.Ack(c.q.receiveBuffers())
	n, _ := s.Credits()
	c.advertised = c.msn.Add(n)
	return s
}

// receivesPosted implements path. If the peer has used up its credits, it sends an
// advertisement (IBTA vol. 1, 9.7.7.2).
func (c *rcConn) receivesPosted() {
	if c.sends && c.dataEnd > 0 && c.advertised.Sub(c.msn) <= 0 && c.q.isServing() {
		c.ackNow()
	}
}

// enoughCredits reports whether the peer has enough credits to continue until a delayed
// acknowledgement is sent.
func (c *rcConn) enoughCredits() bool { return !c.sends || c.advertised.Sub(c.msn) > maxDelayedPackets }
