//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// probeDelay is how long a requester without credits waits for an advertisement before
// it sends a message as a probe. The acknowledgement with the advertisement may be lost,
// and not every peer sends one. The time is arbitrary.
const probeDelay = 500 * time.Microsecond

// creditProbe is the state of the probe of a requester that has no credit.
type creditProbe uint8

const (
	// creditProbeNone: the timer does not run, and no message may be sent without a
	// credit. The state is entered when a probe was sent, and when an advertisement
	// arrives while the timer runs. When the requester has no credit for its next
	// message, and all packets before it are acknowledged, the next state is
	// creditProbeWait.
	creditProbeNone creditProbe = iota
	// creditProbeWait: the timer runs. If an advertisement arrives, the next state is
	// creditProbeNone. If the timer fires first, the next state is creditProbeAllowed.
	creditProbeWait
	// creditProbeAllowed: one message may be sent without a credit. A connection begins
	// in this state, because the first advertisement comes with the first
	// acknowledgement. When the message is sent, the next state is creditProbeNone.
	creditProbeAllowed
)

// rcCredits is end-to-end flow control (IBTA vol. 1, 9.7.7.2). In each ACK a responder
// advertises how many messages it has completed, and for how many further messages it
// has receive buffers. The sum of both numbers is the limit for the requester: if a
// requester sends no message with a number above the limit, it gets no RNR NAK.
//
// Messages count from 1. READs, WRITEs and atomics count too, although they take no
// buffer.
type rcCredits struct {
	connmgr.CreditFlow
	messagesSent uint64 // number of the last message that this side has sent
	limit        uint64 // the peer has advertised buffers for messages up to this number
	probe        creditProbe
	timer        timer     // runs in creditProbeWait
	advertised   psn.Value // this side has advertised buffers for the peer's messages up to this number
}

// init prepares the credits of a connection with the negotiated flow control. The
// function fire is called when the timer fires, and has to call probeAllowed.
func (r *rcCredits) init(flow connmgr.CreditFlow, s *shard, fire func()) {
	r.CreditFlow, r.probe = flow, creditProbeAllowed
	r.timer.init(s, fire)
}

// lacks reports whether w needs a credit and there is none: the message takes a receive
// buffer of the peer, and the peer has not advertised that buffer.
func (r *rcCredits) lacks(w *wqe) bool {
	return r.Receives && w.rc.messageNumber > r.limit && w.op != verbs.OpWrite
}

// allows reports whether the credits allow the next packet of w, a SEND or WRITE. The
// parameter req has the position of that packet. A message without a credit is sent as a
// probe, if creditProbeAllowed is the state and all packets before the message are
// acknowledged. Of a SEND only the first packet is sent as the probe. Its other packets
// are sent when the first packet is acknowledged, because the peer has then taken a
// buffer for the message. A WRITE with immediate data is sent completely as a probe,
// because the peer takes a buffer only at its last packet. A packet that was sent before
// may always be sent again.
func (r *rcCredits) allows(w *wqe, req *rcRequester) bool {
	switch {
	case !r.lacks(w) || req.wasSent():
		return true
	case req.seq > w.rc.firstSeq:
		return w.op == verbs.OpWriteImm || req.ackedEnd > w.rc.firstSeq
	case req.unacked() > 0:
		// The packet has to wait: the acknowledgement of an earlier packet will contain
		// an advertisement.
		return false
	case r.probe == creditProbeNone:
		r.probe = creditProbeWait
		r.timer.start(probeDelay)
	}
	return r.probe == creditProbeAllowed
}

// probeSent records that a packet was sent without a credit. In creditProbeAllowed the
// packet is the probe. In creditProbeWait the packet is a retransmission and no probe:
// the state does not change, and the timer continues to run.
func (r *rcCredits) probeSent() {
	if r.probe == creditProbeAllowed {
		r.probe = creditProbeNone
	}
}

// probeAllowed records that no advertisement has arrived for probeDelay.
func (r *rcCredits) probeAllowed() { r.probe = creditProbeAllowed }

// stop stops the timer.
func (r *rcCredits) stop() {
	r.timer.stop()
	if r.probe == creditProbeWait {
		r.probe = creditProbeNone
	}
}

// update processes the advertisement in an AETH, and reports whether the requester may
// send more than before. A NAK contains no credits. But like an ACK it says how many
// messages are complete, and these messages need no credit any more.
func (r *rcCredits) update(h *wire.AETH) bool {
	n, _ := h.Syndrome().Credits()
	completed, ok := nearestSeq(h.MSN(), 0, r.messagesSent)
	switch {
	case h.Syndrome() == wire.AckNoCredits:
		r.Receives = false // The peer gives infinite credits from now on.
	case !ok || completed > r.messagesSent || completed+uint64(n) <= r.limit:
		return false // The advertisement is invalid, or older than an earlier one.
	default:
		r.limit = completed + uint64(n)
	}
	r.stop()
	return true
}

// advertise returns the syndrome of an ACK that advertises receive buffers, and records
// the advertisement. The parameter msn is the number of messages of the peer that are
// complete.
func (r *rcCredits) advertise(msn psn.Value, buffers int) wire.Syndrome {
	s := wire.Ack(buffers)
	n, _ := s.Credits()
	r.advertised = msn.Add(n)
	return s
}

// usedUp reports whether the peer has no credit left.
func (r *rcCredits) usedUp(msn psn.Value) bool { return r.Sends && r.advertised.Sub(msn) <= 0 }

// enough reports whether the peer has more than maxDelayedPackets credits. If it has
// fewer, it could use up its credits while this side delays the acknowledgement.
func (r *rcCredits) enough(msn psn.Value) bool {
	return !r.Sends || r.advertised.Sub(msn) > maxDelayedPackets
}

// messageCount returns how many messages w is for the peer: each piece of a READ is a
// message of its own.
func (c *rcConn) messageCount(w *wqe) uint64 {
	if w.op != verbs.OpRead {
		return 1
	}
	return (c.packetCount(w.total) + readPiece - 1) / readPiece
}

// flowOf returns which sides of a connection use end-to-end flow control. A side with an
// SRQ advertises no buffers, because another queue pair could take a buffer that was
// advertised.
func flowOf(q *qp) connmgr.CreditFlow {
	flow := q.dev.bindings.flow(q.num)
	flow.Sends = flow.Sends && !q.sharesReceives()
	return flow
}

// onCreditTimer is called when no advertisement has arrived for probeDelay. It lets the
// requester send a probe.
func (c *rcConn) onCreditTimer() {
	c.credits.probeAllowed()
	c.transmit()
}

// ack returns the syndrome of an ACK for all executed requests. The credits in it are
// counted from the MSN, the number of complete messages. A message that is not complete
// has already taken a buffer. This buffer is counted as a credit, because the MSN does
// not include the message.
func (c *rcConn) ack() wire.Syndrome {
	if !c.credits.Sends {
		return wire.AckNoCredits
	}
	return c.credits.advertise(c.resp.msn, c.q.receiveBuffers())
}

// receivesPosted implements path. If the peer has used up its credits, receivesPosted
// sends an advertisement (IBTA vol. 1, 9.7.7.2).
func (c *rcConn) receivesPosted() {
	if c.credits.usedUp(c.resp.msn) && c.resp.dataEnd > 0 && c.q.isServing() {
		c.ackNow()
	}
}
