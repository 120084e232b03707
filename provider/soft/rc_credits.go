//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// creditFlow is what connection management has agreed on for end-to-end flow
// control. A side that says it has none advertises infinite credits (IBTA vol. 1,
// 12.6.7), and its peer may send as it likes.
type creditFlow struct {
	sends    bool // this side tells the peer how many receive buffers there are
	receives bool // the peer has said that it tells
}

// probeDelay is how long a requester without credit waits to be told of new
// buffers before it sends to find out. The word of them may get lost, and not
// every peer sends one.
const probeDelay = 500 * time.Microsecond

// rcCredits is end-to-end flow control (IBTA vol. 1, 9.7.7.2). A responder tells
// in each ACK how many buffers there are after the messages that it has completed.
// A requester that keeps to it meets no RNR NAK.
//
// Messages count from 1. All of them count, and not only those that take a buffer.
type rcCredits struct {
	creditFlow
	messagesSent uint64 // messages sent by this side
	limit        uint64 // messages up to this one have a buffer
	probing      bool   // one may go without, to find out
	probe        timer
	advertised   psn.Value // the last message that the peer knows to have a buffer
}

// init: as long as nobody has said a word, the first message may ask.
func (c *rcCredits) init(q *qp, fire func()) {
	c.creditFlow = q.dev.mux.flowTerms(q.num)
	c.sends = c.sends && q.srq == nil // the buffers there belong to others, too
	c.probing = true
	c.probe.init(q.shard, fire)
}

// messageNumber is the number of a message that begins now. A READ is one message
// to the peer for each piece that it is asked for.
func (c *rcConn) messageNumber(w *wqe) uint64 {
	if w.op != verbs.OpRead {
		return c.messagesSent + 1
	}
	return c.messagesSent + (c.packetCount(w.total)+readPiece-1)/readPiece
}

// short reports whether the peer has not told of a buffer for w.
func (c *rcConn) lacksCredit(w *wqe) bool {
	return c.receives && w.messageNumber > c.limit && w.op != verbs.OpWrite
}

// credited reports whether the packet at hand of a SEND or WRITE may be sent. Of a
// SEND without credit it is the first packet, when all before it is answered, and
// the rest when the peer has found a buffer for that; of a WRITE with immediate
// data it is the whole. What was sent before may be sent again.
func (c *rcConn) creditAllows(w *wqe) bool {
	switch {
	case !c.lacksCredit(w) || c.seq < c.sentEnd:
		return true
	case c.seq > w.firstSeq:
		return w.op == verbs.OpWriteImm || c.q.responded > w.firstSeq
	case c.seq > c.q.responded:
		return false // an answer comes, with news
	case !c.probing && !c.probe.running():
		c.probe.start(probeDelay)
	}
	return c.probing
}

// onProbeTimer: nothing was heard of new buffers.
func (c *rcConn) onProbeTimer() {
	c.probing = true
	c.transmit()
}

// credit takes what an answer of the peer says of its buffers. A NAK has no
// credits, but what was completed needs none any more.
func (c *rcConn) updateCredits(h *wire.AETH) {
	n, _ := h.Syndrome().Credits()
	completed, ok := nearestSeq(h.MSN(), 0, c.messagesSent)
	switch {
	case h.Syndrome() == wire.AckNoCredits:
		c.receives = false // once and for all
	case !ok || completed > c.messagesSent || completed+uint64(n) <= c.limit:
		return // untrue, or old
	default:
		c.limit = completed + uint64(n)
	}
	c.probe.stop()
	c.schedule()
}

// ack is the ACK of everything that was carried out. The buffer of a message
// under way counts: that message is not completed.
func (c *rcConn) ack() wire.Syndrome {
	if !c.sends {
		return wire.AckNoCredits
	}
	buffers := c.q.rq.len()
	if c.q.hasBuffer {
		buffers++
	}
	s := wire.Ack(buffers)
	n, _ := s.Credits()
	c.advertised = c.msn.Add(n)
	return s
}

// offer: see path. A peer that knows of no buffer is told (IBTA vol. 1, 9.7.7.2).
func (c *rcConn) receivesPosted() {
	if c.sends && c.dataEnd > 0 && c.advertised.Sub(c.msn) <= 0 && c.q.isServing() {
		c.ackNow()
	}
}

// ample reports whether the peer's credit lasts until an acknowledgement that is
// put off.
func (c *rcConn) enoughCredits() bool { return !c.sends || c.advertised.Sub(c.msn) > maxDelayedPackets }
