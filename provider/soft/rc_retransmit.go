//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// onLoss starts a retransmission from the oldest unacknowledged packet. It does nothing
// if a retransmission has started and no packet was acknowledged since: the packets in
// flight behind the lost one report the same loss.
func (c *rcConn) onLoss() {
	if c.recovering || c.q.awaitsRNRTimer() {
		return
	}
	c.recovering = true
	c.retransmit()
	c.schedule()
}

// retransmit counts a loss, and goes back to the oldest unacknowledged packet.
func (c *rcConn) retransmit() {
	c.q.shard.counts.Inc(counters.CompleterRetryErr)
	c.shrink(c.inFlight)
	c.goBack()
}

// goBack makes the oldest unacknowledged packet the next one to be sent.
func (c *rcConn) goBack() {
	c.q.rewind()
	c.seq = c.ackedEnd
	c.updateInFlight()
	c.shared.resume()
	c.readsInFlight, c.sinceAckRequest, c.progressed, c.probedInFlight = 0, 0, true, 0
}

// countRetry counts a retry. If the retry count is used up, it fails the oldest request
// and returns false (IBTA vol. 1, 9.7.6.1.1). Timeouts and sequence NAKs have one common
// count.
func (c *rcConn) countRetry() bool {
	if c.retries >= c.q.attributes().RetryCount {
		c.q.onRetriesExceeded()
		return false
	}
	c.retries++
	return true
}

// maxCheckCode bounds checkPeriod: it is the code of an ACK timeout of 16.8 ms. It is
// arbitrary.
const maxCheckCode = 12

// checkPeriod returns the interval at which the retransmission timer checks for
// progress: a quarter of the ACK timeout, but at most the time of maxCheckCode.
func (c *rcConn) checkPeriod() time.Duration {
	return min(verbs.AckTimeout(c.q.attributes().Timeout)/4, verbs.AckTimeout(maxCheckCode))
}

// startRetransmitTimer starts the retransmission timer if requests are outstanding and
// it is not running. The timer is not restarted for each packet, which would need a
// clock reading. It fires every checkPeriod and compares the progress with the last
// time. So a loss is noticed after 1 to 1.25 times the ACK timeout; up to four times are
// allowed (IBTA vol. 1, 9.7.6.1.3).
func (c *rcConn) startRetransmitTimer() {
	if c.q.attributes().Timeout > 0 && !c.retransmitTimer.Running() && c.q.outstanding() {
		c.progressed, c.sinceProgress = false, 0
		c.retransmitTimer.start(c.checkPeriod())
	}
}

// onRetransmitTimer checks for progress. Without progress for the ACK timeout it sends
// the unacknowledged packets again.
func (c *rcConn) onRetransmitTimer() {
	if !c.q.outstanding() || !c.q.isServing() {
		return
	}
	if c.progressed || c.q.awaitsRNRTimer() {
		c.startRetransmitTimer()
		return
	}
	c.sinceProgress += c.checkPeriod()
	if c.sinceProgress >= verbs.AckTimeout(c.q.attributes().Timeout) {
		c.onAckTimeout()
		return
	}
	// The period starts at the time when the timer was due. So if the owner did not call
	// drive for some time, the missed checks follow at once.
	c.retransmitTimer.again(c.checkPeriod())
	c.probePeer()
}

// onAckTimeout sends the unacknowledged packets again, or fails the oldest request if
// the retry count is used up.
func (c *rcConn) onAckTimeout() {
	c.demux.conn.OnTimeout(&c.to)
	if !c.countRetry() {
		return
	}
	c.q.shard.counts.Inc(counters.LocalAckTimeoutErr)
	c.recovering = false
	c.retransmit()
	c.transmit()
}

// probePeer sends the oldest unacknowledged packet again, once after a check period
// without progress. The period is much shorter than the ACK timeout, which is one second
// by default. If only the last packets or their acknowledgement were lost, the peer
// sends no NAK. The probe makes the peer acknowledge what it has received, and the
// requester sends the rest again. A probe does not count as a retry, because the timeout
// has not passed. TCP has tail loss probes for this purpose (RFC 8985, 7).
func (c *rcConn) probePeer() {
	if c.probedInFlight > 0 || c.q.attributes().RetryCount == 0 {
		return
	}
	flight := c.inFlight
	c.recovering = false
	c.goBack()
	c.progressed, c.probedInFlight = false, max(1, flight)
	c.transmit()
}
