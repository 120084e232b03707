//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// recovery says whether a requester sends packets again after a loss, and how.
type recovery uint8

const (
	// recoveryNone: the packets in flight were sent in order, and no loss is known. A
	// connection begins in this state, and returns to it when a packet is acknowledged
	// that was not acknowledged before. An ACK timeout leads to this state too: the
	// packets are sent again, and a NAK that arrives then reports a new loss.
	recoveryNone recovery = iota
	// recoveryResend: the packets from the oldest unacknowledged one on are sent again,
	// because the peer has reported a loss, or because the RNR timer has fired. Further
	// reports are ignored, because the packets that were in flight behind the lost one
	// report the same loss.
	recoveryResend
	// recoveryTailProbe: the oldest unacknowledged packet was sent again as a tail probe
	// (see sendTailProbe), and no other packet is sent. The acknowledgement of the probe
	// says which packets the peer has, and leads to recoveryNone. A NAK leads to
	// recoveryResend, and an ACK timeout to recoveryNone.
	recoveryTailProbe
)

// timerAction is what a requester does when its retransmission timer has fired.
type timerAction uint8

const (
	timerRestart timerAction = iota // There was progress; a new period begins.
	timerWait                       // There was no progress, but the ACK timeout has not passed.
	timerExpired                    // There was no progress during the ACK timeout.
)

// retransmission decides when a requester sends packets again. The zero value is the
// state of a connection that has sent nothing. The method init of the field timer has to
// be called before use.
type retransmission struct {
	state   recovery
	retries uint8 // retries since the last acknowledgement of a new packet
	// true if packets were acknowledged or sent again since the last check of the timer
	progressed bool
	// time without progress, up to the last check of the timer
	sinceProgress time.Duration
	// number of packets in flight when the tail probe was sent, at least 1; only in
	// recoveryTailProbe
	tailProbed uint64
	timer      timer
}

// maxCheckCode bounds checkPeriod: it is the code of an ACK timeout of 16.8 ms. It is
// arbitrary.
const maxCheckCode = 12

// checkPeriod returns the interval at which the retransmission timer checks for
// progress: a quarter of the ACK timeout, but at most the time of maxCheckCode. The
// parameter code is the code of the ACK timeout.
func checkPeriod(code uint8) time.Duration {
	return min(verbs.AckTimeout(code)/4, verbs.AckTimeout(maxCheckCode))
}

// start begins to watch for an ACK timeout. The timer is not restarted for each packet,
// because that would need a clock reading for each packet. Instead it fires after each
// checkPeriod, and onTimer checks whether there was progress in this period. So a loss
// is noticed after 1 to 1.25 times the ACK timeout. The specification allows up to four
// times the ACK timeout (IBTA vol. 1, 9.7.6.1.3).
func (r *retransmission) start(code uint8) {
	r.progressed, r.sinceProgress = false, 0
	r.timer.start(checkPeriod(code))
}

// onTimer is called when the timer has fired. It returns what the requester does next.
// With timerWait, the timer runs again.
func (r *retransmission) onTimer(code uint8) timerAction {
	if r.progressed {
		return timerRestart
	}
	r.sinceProgress += checkPeriod(code)
	if r.sinceProgress >= verbs.AckTimeout(code) {
		return timerExpired
	}
	// The next period is counted from the time at which the timer was due, and not from
	// now. If the owner did not call drive for some time, the checks that were missed
	// are made at once.
	r.timer.again(checkPeriod(code))
	return timerWait
}

// countRetry counts a retry, after a timeout or a sequence NAK (IBTA vol. 1, 9.7.6.1.1).
// It returns false if the number of retries has already reached the parameter limit.
func (r *retransmission) countRetry(limit uint8) bool {
	if r.retries >= limit {
		return false
	}
	r.retries++
	return true
}

// goBack records that the requester sends packets again from the oldest unacknowledged
// one on. The parameter entered is the state that is entered: recoveryNone or
// recoveryResend.
func (r *retransmission) goBack(entered recovery) { r.state, r.progressed = entered, true }

// startTailProbe enters recoveryTailProbe. The parameter inFlight is the number of
// packets that were in flight before the tail probe. The probe is no progress: if it is
// not acknowledged either, the timer expires.
func (r *retransmission) startTailProbe(inFlight uint64) {
	r.state, r.progressed, r.tailProbed = recoveryTailProbe, false, max(1, inFlight)
}

// tailProbing reports whether a tail probe is unanswered.
func (r *retransmission) tailProbing() bool { return r.state == recoveryTailProbe }

// onProgress records that packets were acknowledged for the first time. If they answer a
// tail probe, it returns how many packets were in flight when the probe was sent; else 0.
func (r *retransmission) onProgress() (probed uint64) {
	if r.tailProbing() {
		probed = r.tailProbed
	}
	r.state, r.retries, r.progressed = recoveryNone, 0, true
	return probed
}

// onLoss starts a retransmission from the oldest unacknowledged packet, when the peer has
// reported a loss; see recoveryResend.
func (c *rcConn) onLoss() {
	if c.retry.state == recoveryResend || c.q.awaitsRNRTimer() {
		return
	}
	c.retransmit(recoveryResend)
	c.schedule()
}

// retransmit counts a loss, and goes back to the oldest unacknowledged packet.
func (c *rcConn) retransmit(to recovery) {
	c.q.shard.counts.Inc(counters.CompleterRetryErr)
	c.cong.shrink(c.cong.inFlight)
	c.retry.goBack(to)
	c.goBack()
}

// goBack makes the oldest unacknowledged packet the next one to be sent.
func (c *rcConn) goBack() {
	c.q.rewind()
	c.req.goBack()
	c.updateInFlight()
	c.cong.shared.resume()
}

// countRetry counts a retry. If the retry count is used up, it fails the oldest request
// and returns false.
func (c *rcConn) countRetry() bool {
	ok := c.retry.countRetry(c.q.attributes().RetryCount)
	if !ok {
		c.q.onRetriesExceeded()
	}
	return ok
}

// startRetransmitTimer starts the retransmission timer if requests are outstanding and
// the timer is not running.
func (c *rcConn) startRetransmitTimer() {
	if code := c.q.attributes().Timeout; code > 0 && !c.retry.timer.Running() && c.q.outstanding() {
		c.retry.start(code)
	}
}

// onRetransmitTimer checks for progress. Without progress for the ACK timeout it sends
// the unacknowledged packets again.
func (c *rcConn) onRetransmitTimer() {
	if !c.q.outstanding() || !c.q.isServing() {
		return
	}
	if c.q.awaitsRNRTimer() {
		c.startRetransmitTimer()
		return
	}
	switch c.retry.onTimer(c.q.attributes().Timeout) {
	case timerRestart:
		c.startRetransmitTimer()
	case timerWait:
		c.sendTailProbe()
	case timerExpired:
		c.onAckTimeout()
	}
}

// onAckTimeout sends the unacknowledged packets again, or fails the oldest request if
// the retry count is used up.
func (c *rcConn) onAckTimeout() {
	c.demux.conn.OnTimeout(&c.to)
	if !c.countRetry() {
		return
	}
	c.q.shard.counts.Inc(counters.LocalAckTimeoutErr)
	c.retransmit(recoveryNone)
	c.transmit()
}

// sendTailProbe sends the oldest unacknowledged packet again, once after a check period
// without progress. The period is much shorter than the ACK timeout, which is one second
// by default. If only the last packets or their acknowledgement were lost, the peer
// sends no NAK. This tail probe makes the peer acknowledge what it has received, and the
// requester sends the rest again. A probe does not count as a retry, because the timeout
// has not passed. The tail loss probes of TCP have the same purpose (RFC 8985, 7).
func (c *rcConn) sendTailProbe() {
	if c.retry.tailProbing() || c.q.attributes().RetryCount == 0 {
		return
	}
	c.retry.startTailProbe(c.cong.inFlight)
	c.goBack()
	c.transmit()
}
