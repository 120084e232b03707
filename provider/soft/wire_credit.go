//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// flowTerms is what connection management has agreed on for end-to-end flow
// control. A side that says it has none advertises infinite credits (IBTA vol. 1,
// 12.6.7), and its peer may send as it likes.
type flowTerms struct {
	tells   bool // this side tells the peer how many receive buffers there are
	limited bool // the peer has said that it tells
}

// probeDelay is how long a requester without credit waits to be told of new
// buffers before it sends to find out. The word of them may get lost, and not
// every peer sends one.
const probeDelay = 500 * time.Microsecond

// wireCredits is end-to-end flow control (IBTA vol. 1, 9.7.7.2). A responder tells
// in each ACK how many buffers there are after the messages that it has completed.
// A requester that keeps to it meets no RNR NAK.
//
// Messages count from 1. All of them count, and not only those that take a buffer.
type wireCredits struct {
	flowTerms
	begun   uint64 // messages sent by this side
	limit   uint64 // messages up to this one have a buffer
	asking  bool   // one may go without, to find out
	probe   timer
	granted psn.Value // the last message that the peer knows to have a buffer
}

// init: as long as nobody has said a word, the first message may ask.
func (c *wireCredits) init(q *qp, fire func()) {
	c.flowTerms = q.dev.mads.flowTerms(q.num)
	c.tells = c.tells && q.srq == nil // the buffers there belong to others, too
	c.asking = true
	c.probe.init(q.shard, fire)
}

// messageNumber is the number of a message that begins now. A READ is one message
// to the peer for each piece that it is asked for.
func (l *wireLink) messageNumber(w *wqe) uint64 {
	if w.op != verbs.OpRead {
		return l.begun + 1
	}
	return l.begun + (l.packets(w.total)+readPiece-1)/readPiece
}

// short reports whether the peer has not told of a buffer for w.
func (l *wireLink) short(w *wqe) bool {
	return l.limited && w.message > l.limit && w.op != verbs.OpWrite
}

// credited reports whether the packet at hand of a SEND or WRITE may be sent. Of a
// SEND without credit it is the first packet, when all before it is answered, and
// the rest when the peer has found a buffer for that; of a WRITE with immediate
// data it is the whole. What was sent before may be sent again.
func (l *wireLink) credited(w *wqe) bool {
	switch {
	case !l.short(w) || l.seq < l.high:
		return true
	case l.seq > w.firstSeq:
		return w.op == verbs.OpWriteImm || l.q.acked > w.firstSeq
	case l.seq > l.q.acked:
		return false // an answer comes, with news
	case !l.asking && !l.probe.running():
		l.probe.start(probeDelay)
	}
	return l.asking
}

// onProbeTimer: nothing was heard of new buffers.
func (l *wireLink) onProbeTimer() {
	l.asking = true
	l.transmit()
}

// credit takes what an answer of the peer says of its buffers. A NAK has no
// credits, but what was completed needs none any more.
func (l *wireLink) credit(h *wire.AETH) {
	n, _ := h.Syndrome().Credits()
	completed, ok := nearest(h.MSN(), 0, l.begun)
	switch {
	case h.Syndrome() == wire.AckNoCredits:
		l.limited = false // once and for all
	case !ok || completed > l.begun || completed+uint64(n) <= l.limit:
		return // untrue, or old
	default:
		l.limit = completed + uint64(n)
	}
	l.probe.stop()
	l.schedule()
}

// ack is the ACK of everything that was carried out. The buffer of a message
// under way counts: that message is not completed.
func (l *wireLink) ack() wire.Syndrome {
	if !l.tells {
		return wire.AckNoCredits
	}
	buffers := l.q.rq.len()
	if l.q.has {
		buffers++
	}
	s := wire.Ack(buffers)
	n, _ := s.Credits()
	l.granted = l.msn.Add(n)
	return s
}

// offer: see path. A peer that knows of no buffer is told (IBTA vol. 1, 9.7.7.2).
func (l *wireLink) offer() {
	if l.tells && l.plain > 0 && l.granted.Sub(l.msn) <= 0 && l.q.serves() {
		l.acknowledgeNow()
	}
}

// ample reports whether the peer's credit lasts until an acknowledgement that is
// put off.
func (l *wireLink) ample() bool { return !l.tells || l.granted.Sub(l.msn) > ackBurst }
