//go:build linux

package rcpath

import (
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// recovery says whether a requester sends packets again after a loss, and how.
type recovery uint8

const (
	// recoveryNone: the peer has reported no loss. This is the state at first, and after
	// each new acknowledgement or ACK timeout.
	recoveryNone recovery = iota
	// recoveryResend: all unacknowledged packets are sent again, because the peer has
	// reported a loss or the RNR timer has fired. Further reports of the same loss are
	// ignored.
	recoveryResend
	// recoveryTailProbe: a tail probe was sent (see sendTailProbe), and no other packet
	// is sent. An acknowledgement or an ACK timeout leads to recoveryNone, and a NAK to
	// recoveryResend.
	recoveryTailProbe
)

// timerAction is what a requester does when its retransmission timer fires.
type timerAction uint8

const (
	timerRestart timerAction = iota // begin a new period, because there was progress
	timerWait                       // wait, because the ACK timeout has not passed
	timerExpired                    // retry, because there was no progress during the ACK timeout
)

// retransmission decides when a requester sends packets again. Before use, its timer has
// to be initialized.
type retransmission struct {
	state recovery
	// number of retries since an acknowledgement last made progress
	retries uint8
	// true if packets were acknowledged or sent again since the last check
	progressed bool
	// duration without progress at the time of the last check
	sinceProgress time.Duration
	// number of packets in flight before the tail probe, at least 1; used only in
	// recoveryTailProbe
	tailProbed uint64
	// value of congestion.acked at the last check, if the connection waits for room
	othersAcked uint64
	timer       qp.Timer
}

// maxCheckCode limits checkPeriod. It is the code of 16.8 ms. Arbitrary.
const maxCheckCode = 12

// checkPeriod returns how often the timer checks for progress: four times in each ACK
// timeout, or more often if the timeout is long; see maxCheckCode.
func checkPeriod(code uint8) time.Duration {
	return min(verbs.AckTimeout(code)/4, verbs.AckTimeout(maxCheckCode))
}

// start begins to watch for an ACK timeout. Reading the clock for each acknowledgement
// would be slow, so the timer checks for progress once in each checkPeriod. A timeout is
// noticed up to 25 % late, as IBTA vol. 1, 9.7.6.1.3, allows.
func (r *retransmission) start(code uint8) {
	r.progressed, r.sinceProgress = false, 0
	r.timer.Start(checkPeriod(code))
}

// onTimer returns what the requester does when the timer fires. If the result is
// timerWait, onTimer has started the timer again.
func (r *retransmission) onTimer(code uint8) timerAction {
	if r.progressed {
		return timerRestart
	}
	r.sinceProgress += checkPeriod(code)
	if r.sinceProgress >= verbs.AckTimeout(code) {
		return timerExpired
	}
	// The next period begins at the time for which the timer was set, even if the timer has
	// fired later.
	r.timer.Again(checkPeriod(code))
	return timerWait
}

// countRetry counts a retry after a timeout or a sequence NAK (IBTA vol. 1, 9.7.6.1.1).
// It returns false if no retry is left.
func (r *retransmission) countRetry(limit uint8) bool {
	if r.retries >= limit {
		return false
	}
	r.retries++
	return true
}

// waits is called instead of onProgress while the connection waits for room in the
// congestion window. The parameter acked is congestion.acked: an acknowledgement for any
// connection to the host is progress.
func (r *retransmission) waits(acked uint64) {
	if acked != r.othersAcked {
		r.othersAcked, r.retries, r.progressed = acked, 0, true
	}
}

// goBack records that all unacknowledged packets are sent again. The parameter entered
// is the new state: recoveryNone after an ACK timeout, and otherwise recoveryResend.
func (r *retransmission) goBack(entered recovery) { r.state, r.progressed = entered, true }

// startTailProbe is called when a tail probe is sent. The parameter inFlight is the
// number of packets in flight before it.
func (r *retransmission) startTailProbe(inFlight uint64) {
	r.state, r.progressed, r.tailProbed = recoveryTailProbe, false, max(1, inFlight)
}

// tailProbing reports whether a tail probe is unanswered.
func (r *retransmission) tailProbing() bool { return r.state == recoveryTailProbe }

// onProgress records an acknowledgement. If a tail probe was sent, onProgress returns
// how many packets were in flight before it, and otherwise 0.
func (r *retransmission) onProgress() (probed uint64) {
	if r.tailProbing() {
		probed = r.tailProbed
	}
	r.state, r.retries, r.progressed = recoveryNone, 0, true
	return probed
}

// onLoss is called when the peer has reported a loss. It sends all unacknowledged
// packets again.
func (c *Conn) onLoss() {
	if c.retry.state == recoveryResend || c.q.AwaitsRNRTimer() {
		return
	}
	c.retransmit(recoveryResend)
	c.schedule()
}

// retransmit counts a loss, and goes back to the oldest unacknowledged packet.
func (c *Conn) retransmit(to recovery) {
	c.q.Counts().Inc(counters.CompleterRetryErr)
	// PeerSocket may be out of date. Packets may then reach a wrong shard of the peer. So
	// PeerSocket is set to 0, which means unknown.
	c.to.PeerSocket = 0
	c.cong.shrink(c.cong.inFlight)
	c.retry.goBack(to)
	c.goBack()
}

// goBack makes the oldest unacknowledged packet the next one to be sent.
func (c *Conn) goBack() {
	c.q.Rewind()
	c.req.goBack()
	c.updateInFlight()
	c.cong.shared.resume()
}

// countRetry counts a retry. If none is left, it fails the oldest request, and returns
// false.
func (c *Conn) countRetry() bool {
	ok := c.retry.countRetry(c.q.Attributes().RetryCount)
	if !ok {
		c.q.MarkNextBegun()
		c.q.OnRetriesExceeded()
	}
	return ok
}

// startRetransmitTimer starts the timer, unless it runs or there is nothing to wait for.
func (c *Conn) startRetransmitTimer() {
	if code := c.q.Attributes().Timeout; code > 0 && !c.retry.timer.Running() && c.awaitsPeer() {
		c.retry.start(code)
	}
}

// awaitsPeer reports whether a request is outstanding, or waits for room in the
// congestion window, which packets of other connections fill. If the peer's host does not
// acknowledge these either, the connection fails as if its own packets were in flight.
// Otherwise the connections to a host that has stopped would fail one after the other.
func (c *Conn) awaitsPeer() bool {
	return c.q.Outstanding() || c.req.awaitsRoom && c.q.HasUnsent()
}

func (c *Conn) onRetransmitTimer() {
	if !c.awaitsPeer() || !c.q.IsServing() {
		return
	}
	if c.q.AwaitsRNRTimer() {
		c.startRetransmitTimer()
		return
	}
	if !c.q.Outstanding() {
		c.retry.waits(c.cong.shared.acked)
	}
	switch c.retry.onTimer(c.q.Attributes().Timeout) {
	case timerRestart:
		c.startRetransmitTimer()
	case timerWait:
		if c.q.Outstanding() {
			c.sendTailProbe()
		}
	case timerExpired:
		c.onAckTimeout()
	}
}

// onAckTimeout sends the unacknowledged packets again, or fails the oldest request.
func (c *Conn) onAckTimeout() {
	c.demux.OnTimeout(&c.to)
	if !c.countRetry() {
		return
	}
	c.q.Counts().Inc(counters.LocalAckTimeoutErr)
	if !c.q.Outstanding() {
		c.startRetransmitTimer()
		return
	}
	c.retransmit(recoveryNone)
	c.Transmit()
}

// sendTailProbe sends the oldest unacknowledged packet again. If the last packets were
// lost, the acknowledgement of the probe shows the loss long before the ACK timeout (see
// RFC 8985, 7).
func (c *Conn) sendTailProbe() {
	if c.retry.tailProbing() || c.q.Attributes().RetryCount == 0 {
		return
	}
	c.retry.startTailProbe(c.cong.inFlight)
	c.goBack()
	c.Transmit()
}
