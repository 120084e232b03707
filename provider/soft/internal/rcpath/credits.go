//go:build linux

package rcpath

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// probeDelay is how long a requester without credits waits before it sends a probe. The
// peer's advertisement of new credits may have been lost. Arbitrary.
const probeDelay = 500 * time.Microsecond

// creditProbe says whether a requester without credits may send a probe.
type creditProbe uint8

const (
	// creditProbeNone: each message needs a credit. If a credit is missing and nothing
	// is in flight, the next state is creditProbeWait.
	creditProbeNone creditProbe = iota
	// creditProbeWait: the timer runs. When it fires, the next state is
	// creditProbeAllowed. After an advertisement, the next state is creditProbeNone.
	creditProbeWait
	// creditProbeAllowed: one message may be sent without a credit. The next state is
	// creditProbeNone. A connection begins in creditProbeAllowed, because the first
	// advertisement arrives with the first acknowledgement.
	creditProbeAllowed
)

// A CreditFlow says which sides of a connection use end-to-end flow control.
type CreditFlow struct {
	Sends    bool // this side advertises its receive buffers
	Receives bool // the peer advertises its receive buffers
}

// credits is end-to-end flow control (IBTA vol. 1, 9.7.7.2). Messages are numbered
// from 1. Each ACK tells the requester how many messages are complete, and how many
// further receive buffers are posted. The sum of these two is the number of the last
// message that may be sent.
type credits struct {
	CreditFlow
	messagesSent uint64 // number of the last message that this side has sent
	limit        uint64 // number of the last message for which the peer has advertised a buffer
	probe        creditProbe
	timer        qp.Timer  // runs in the state creditProbeWait
	advertised   psn.Value // number of the peer's last message for which this side has advertised a buffer
}

// init prepares the credits and the timer of a connection.
func (c *credits) init(flow CreditFlow, s *qp.Shard, owner timerheap.Owner) {
	c.CreditFlow, c.probe = flow, creditProbeAllowed
	c.timer.Init(s, owner)
}

// lacks reports whether w takes a receive buffer that the peer has not advertised yet.
func (c *credits) lacks(w *qp.WQE) bool {
	return c.Receives && w.RC.MessageNumber > c.limit && w.Op != verbs.OpWrite
}

// allows reports whether the credits allow the next packet of w. A packet may always be
// sent again. A request without a credit may be sent as a probe, when all earlier
// packets are acknowledged:
//
//   - Of a SEND, the first packet is sent. The other packets wait for the
//     acknowledgement.
//   - A WRITE with immediate data is sent completely, because only its last packet takes
//     a buffer.
func (c *credits) allows(w *qp.WQE, req *requester) bool {
	switch {
	case !c.lacks(w) || req.wasSent():
		return true
	case req.seq > w.RC.FirstSeq:
		return w.Op == verbs.OpWriteImm || req.ackedEnd > w.RC.FirstSeq
	case req.unacked() > 0:
		// A packet is in flight. Its acknowledgement will advertise credits, so no probe is
		// needed.
		return false
	case c.probe == creditProbeNone:
		c.probe = creditProbeWait
		c.timer.Start(probeDelay)
	}
	return c.probe == creditProbeAllowed
}

// probeSent is called for each packet that was sent without a credit. Further probes are
// then not allowed.
func (c *credits) probeSent() {
	if c.probe == creditProbeAllowed {
		c.probe = creditProbeNone
	}
}

// probeAllowed allows a probe, because no advertisement has arrived for probeDelay.
func (c *credits) probeAllowed() { c.probe = creditProbeAllowed }

func (c *credits) stop() {
	c.timer.Stop()
	if c.probe == creditProbeWait {
		c.probe = creditProbeNone
	}
}

// update processes an AETH, and reports whether the requester may send more. A NAK has
// no credits, but it has the number of complete messages.
func (c *credits) update(h *wire.AETH) bool {
	n, _ := h.Syndrome().Credits()
	completed, ok := packets.NearestSeq(h.MSN(), 0, c.messagesSent)
	switch {
	case h.Syndrome() == wire.AckNoCredits:
		c.Receives = false // The peer advertises no credits, so they do not limit this side.
	case !ok || completed > c.messagesSent || completed+uint64(n) <= c.limit:
		return false // The advertisement is invalid, or older than the last one.
	default:
		c.limit = completed + uint64(n)
	}
	c.stop()
	return true
}

// advertise returns the syndrome of an ACK that advertises receive buffers. The
// parameter msn is the number of complete messages.
func (c *credits) advertise(msn psn.Value, buffers int) wire.Syndrome {
	s := wire.Ack(buffers)
	n, _ := s.Credits()
	c.advertised = msn.Add(n)
	return s
}

// usedUp reports whether the peer has no credit left.
func (c *credits) usedUp(msn psn.Value) bool { return c.Sends && c.advertised.Sub(msn) <= 0 }

// enough reports whether the peer has enough credits, so that an acknowledgement may be
// delayed. During the delay the peer may send maxDelayedPackets packets, and each of
// them may need a credit.
func (c *credits) enough(msn psn.Value) bool {
	return !c.Sends || c.advertised.Sub(msn) > maxDelayedPackets
}

// messageCount returns by how much w increases the peer's number of complete messages
// (MSN). A READ is requested in pieces, and each piece counts as one message.
func (c *Conn) messageCount(w *qp.WQE) uint64 {
	if w.Op != verbs.OpRead {
		return 1
	}
	return (c.packetCount(w.Total) + readPiece - 1) / readPiece
}

func (c *Conn) onCreditTimer() {
	c.credits.probeAllowed()
	c.Transmit()
}

// ack returns the syndrome of an ACK for all executed requests. The peer adds the number
// of credits to the MSN, which counts only complete messages. So the buffer of an
// incomplete SEND has to count as a credit.
func (c *Conn) ack() wire.Syndrome {
	if !c.credits.Sends {
		return wire.AckNoCredits
	}
	return c.credits.advertise(c.resp.msn, c.q.ReceiveBuffers())
}

// ReceivesPosted implements qp.WirePath. It sends an advertisement if the peer has no
// credits left (IBTA vol. 1, 9.7.7.2).
func (c *Conn) ReceivesPosted() {
	if c.credits.usedUp(c.resp.msn) && c.resp.dataEnd > 0 && c.q.IsServing() {
		c.ackNow()
	}
}
