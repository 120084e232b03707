//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// answerChecks is how often an answerTimer looks for progress in each ACK timeout. So a
// silent peer is noticed up to a quarter of an ACK timeout late, as on the wire path; see
// retransmission.
const answerChecks = 4

// An answerTimer finds out that the peer of a local connection does not answer: its
// process is stopped, its loop hangs, or it keeps a response back. The connection then
// fails after the time that all retries would take on the wire path. Shared memory loses
// nothing, so nothing is sent again.
//
// The timer is started by a request and runs until a check finds no request to wait for.
// Stopping and starting it for each request would read the clock each time.
type answerTimer struct {
	timer timer
	// number of checks since the peer was heard. Checks are counted, and not time: if this
	// process was stopped too, only one check is late, and the peer has time to answer.
	silent int
	seen   shmProgress // what the last check has seen
}

// A shmProgress says how far the peer has come with the requests of a connection.
type shmProgress struct {
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
func (s *answerTimer) exhausted(retries uint8) bool {
	return s.silent >= answerChecks*(int(retries)+1)
}

// awaitAnswer starts the timer, unless it runs.
func (c *shmConn) awaitAnswer() {
	if !c.answer.timer.Running() {
		c.beginAwaiting()
	}
}

// beginAwaiting starts the timer. The code 0 means an infinite ACK timeout.
func (c *shmConn) beginAwaiting() {
	if c.q.attributes().Timeout > 0 && c.awaitsPeer() {
		c.answer.silent, c.answer.seen = 0, c.progress()
		c.startAnswerCheck()
	}
}

func (c *shmConn) startAnswerCheck() {
	c.answer.timer.start(verbs.AckTimeout(c.q.attributes().Timeout) / answerChecks)
}

// awaitsPeer reports whether a request can go on only if the peer does something: it has
// to answer, or to make room in the ring.
func (c *shmConn) awaitsPeer() bool {
	return c.serving && (c.q.outstanding() || c.blocked && c.q.hasUnsent())
}

func (c *shmConn) progress() shmProgress {
	w, at := c.q.oldestRequest()
	p := shmProgress{state: c.state, oldest: at, acked: c.acked()}
	if w != nil && w.lastSeq != unsent {
		p.acked = min(p.acked, w.lastSeq+1)
	}
	if w = c.q.expectedResponse(); w != nil {
		p.received = w.received
	}
	return p
}

// OnTimer implements timerheap.Owner for the answerTimer. It first processes what the
// peer has sent, because this loop may have been delayed.
func (c *shmConn) OnTimer(*timerheap.Timer) {
	if !c.awaitsPeer() {
		return
	}
	c.takeAcks()
	if !c.awaitsPeer() {
		return
	}
	s := &c.answer
	s.silent++
	if now := c.progress(); now != s.seen || c.q.awaitsRNRTimer() {
		s.silent, s.seen = 0, now
	}
	if s.exhausted(c.q.attributes().RetryCount) {
		c.q.markNextBegun()
		c.q.onRetriesExceeded()
		return
	}
	c.startAnswerCheck()
}
