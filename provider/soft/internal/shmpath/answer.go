//go:build linux

package shmpath

import (
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// answerChecks is how often an answerTimer looks for progress in each ACK timeout. So a
// silent peer is noticed up to a quarter of an ACK timeout late, as on the wire path; see
// rcpath.retransmission.
const answerChecks = 4

// An answerTimer finds out that the peer of a local connection does not answer: its
// process is stopped, its loop hangs, or it keeps a response back. The connection then
// fails after the time that all retries would take on the wire path. Shared memory loses
// nothing, so nothing is sent again.
//
// The timer is started by a request and runs until a check finds no request to wait for.
// Stopping and starting it for each request would read the clock each time.
type answerTimer struct {
	timer qp.Timer
	// number of checks since the peer was heard. Checks are counted, and not time: if this
	// process was stopped too, only one check is late, and the peer has time to answer.
	silent int
	seen   progress // what the last check has seen
}

// A progress says how far the peer has come with the requests of a connection.
type progress struct {
	state  peerState
	oldest uint32 // position of the oldest request in the send queue
	// position in the ring up to which the peer has executed slots, but not beyond the
	// oldest request: acknowledgements of later slots are no progress if the peer keeps the
	// response to that request back. A request that was refused or waits for room has no
	// position yet, and then every slot counts.
	acked    uint64
	received uint32 // bytes of the response that is expected next
}

// exhausted reports whether as many ACK timeouts have passed as there are attempts
// (IBTA vol. 1, 9.7.6.1.3).
func (a *answerTimer) exhausted(retries uint8) bool {
	return a.silent >= answerChecks*(int(retries)+1)
}

// awaitAnswer starts the timer, unless it runs.
func (c *Conn) awaitAnswer() {
	if !c.answer.timer.Running() {
		c.beginAwaiting()
	}
}

// beginAwaiting starts the timer. The code 0 means an infinite ACK timeout.
func (c *Conn) beginAwaiting() {
	if c.q.Attributes().Timeout > 0 && c.awaitsPeer() {
		c.answer.silent, c.answer.seen = 0, c.progress()
		c.startAnswerCheck()
	}
}

func (c *Conn) startAnswerCheck() {
	c.answer.timer.Start(verbs.AckTimeout(c.q.Attributes().Timeout) / answerChecks)
}

// awaitsPeer reports whether a request can go on only if the peer does something: it has
// to answer, or to make room in the ring.
func (c *Conn) awaitsPeer() bool {
	return c.serving && (c.q.Outstanding() || c.blocked && c.q.HasUnsent())
}

func (c *Conn) progress() progress {
	w, at := c.q.OldestRequest()
	p := progress{state: c.state, oldest: at, acked: c.Acked()}
	if w != nil && w.LastSeq != qp.Unsent {
		p.acked = min(p.acked, w.LastSeq+1)
	}
	if w = c.q.ExpectedResponse(); w != nil {
		p.received = w.Received
	}
	return p
}

// OnTimer implements timerheap.Owner for the answerTimer. It first processes what the
// peer has sent, because this loop may have been delayed.
func (c *Conn) OnTimer(*timerheap.Timer) {
	if !c.awaitsPeer() {
		return
	}
	c.TakeAcks()
	if !c.awaitsPeer() {
		return
	}
	s := &c.answer
	s.silent++
	if now := c.progress(); now != s.seen || c.q.AwaitsRNRTimer() {
		s.silent, s.seen = 0, now
	}
	if s.exhausted(c.q.Attributes().RetryCount) {
		c.q.MarkNextBegun()
		c.q.OnRetriesExceeded()
		return
	}
	c.startAnswerCheck()
}
