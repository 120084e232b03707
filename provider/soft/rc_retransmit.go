//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// lost goes back to the oldest packet without an answer, at the next occasion:
// once, until there is progress. Everything that was in flight behind the lost
// packet tells of the same loss.
func (c *rcConn) onLoss() {
	if c.recovering || c.q.waitingRNR {
		return
	}
	c.recovering = true
	c.retransmit()
	c.schedule()
}

// repeat goes back because something got lost.
func (c *rcConn) retransmit() {
	c.q.shard.counts.inc(completerRetryErr)
	c.shrink(c.inFlight)
	c.goBack()
}

// goBack makes the oldest packet without an answer the next one to be sent.
func (c *rcConn) goBack() {
	c.q.rewind()
	c.seq = c.q.responded
	c.updateInFlight()
	c.shared.resume()
	c.readsInFlight, c.sinceAckRequest, c.progressed, c.probedInFlight = 0, 0, true, 0
}

// countRetry counts a retry, and gives up when there have been as many as are
// allowed (IBTA vol. 1, 9.7.6.1.1). Timeouts and sequence NAKs count together.
func (c *rcConn) countRetry() bool {
	if c.retries >= c.q.attr.RetryCount {
		c.q.failOldest(verbs.StatusRetryExcErr)
		return false
	}
	c.retries++
	return true
}

// maxCheckPeriod is how long a look at whether answers come may be away: 16.8 ms, the
// timeout with the code 12.
const maxCheckPeriod = 4096 * time.Nanosecond << 12

// checkPeriod is how often that is looked, in one timeout.
func (c *rcConn) checkPeriod() time.Duration {
	return min(verbs.AckTimeout(c.q.attr.Timeout)/4, maxCheckPeriod)
}

// watch makes sure that an answer is missed when it does not come. The timer is
// not set anew for each packet, and no clock is read: it is left running, and
// looks now and then whether there was something since it looked last. A loss is
// so noticed after one to one and a quarter times the timeout; up to four times
// are allowed (IBTA vol. 1, 9.7.6.1.3).
func (c *rcConn) startRetransmitTimer() {
	if c.q.attr.Timeout > 0 && !c.retransmitTimer.running() && c.q.sq.outstanding() {
		c.progressed, c.sinceProgress = false, 0
		c.retransmitTimer.start(c.checkPeriod())
	}
}

func (c *rcConn) onRetransmitTimer() {
	if !c.q.sq.outstanding() || !c.q.isServing() {
		return
	}
	if c.progressed || c.q.waitingRNR {
		c.startRetransmitTimer()
		return
	}
	c.sinceProgress += c.checkPeriod()
	if c.sinceProgress >= verbs.AckTimeout(c.q.attr.Timeout) {
		c.onAckTimeout()
		return
	}
	// It counts from the time of the last look, so that an owner that comes late
	// makes up for those that were missed.
	c.retransmitTimer.again(c.checkPeriod())
	c.probePeer()
}

func (c *rcConn) onAckTimeout() {
	c.demux.conn.onTimeout(&c.to)
	if !c.countRetry() {
		return
	}
	c.q.shard.counts.inc(localAckTimeoutErr)
	c.recovering = false
	c.retransmit()
	c.transmit()
}

// inquire repeats the oldest unanswered packet, once after a silence that is much
// shorter than the timeout, a second by default. If only the last packets were lost,
// or their acknowledgement, there would be no NAK. The peer now acknowledges what it
// has, and the rest is sent again. The repetition does not count as a retry, because
// the timeout has not passed. TCP has tail loss probes (RFC 8985, 7).
func (c *rcConn) probePeer() {
	if c.probedInFlight > 0 || c.q.attr.RetryCount == 0 {
		return
	}
	flight := c.inFlight
	c.recovering = false
	c.goBack()
	c.progressed, c.probedInFlight = false, max(1, flight)
	c.transmit()
}
