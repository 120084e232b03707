//go:build linux

package rcpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var scriptTimeout = verbs.AckTimeout(14)

func TestWireSequenceNAK(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 1)
	p.post(2, verbs.OpWrite, 4*scriptMTU)
	p.post(3, verbs.OpSend, 1)
	p.out = nil
	p.send(p.nak(wire.NAKSequence, 3), p.nak(wire.NAKSequence, 3))
	p.wantDone("the NAK acknowledges the requests before it", verbs.StatusSuccess, 1)
	p.wantRequest("the missing packet, unchanged", wire.WriteMiddle, 3)
	p.wantRequest("the packets after it", wire.WriteLast, 4)
	p.wantRequest("", wire.SendOnly, 5)
	p.send(p.nak(wire.NAKSequence, 3))
	p.wantQuiet("there is one retransmission for one loss")
	p.send(p.nak(wire.NAKSequence, 4))
	p.wantRequest("another loss", wire.WriteLast, 4)
	p.wantRequest("", wire.SendOnly, 5)
	p.send(p.ack(5))
	p.wantDone("all requests have completed", verbs.StatusSuccess, 2, 3)
}

// After a NAK the requester sends packets again. It skips packets that are acknowledged
// meanwhile.
func TestWireAckDuringRetransmission(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 8*scriptMTU)
	p.post(2, verbs.OpSend, 4*scriptMTU)
	p.out = nil
	p.send(p.nak(wire.NAKSequence, 2), p.ack(9))
	p.wantDone("the NAK was for a late packet", verbs.StatusSuccess, 1)
	p.wantRequest("the second message continues", wire.SendMiddle, 10)
	p.wantRequest("", wire.SendLast, 11)
	p.wantQuiet("no other packet is sent")
	p.post(3, verbs.OpSend, 8*scriptMTU)
	p.out, p.room = nil, 1
	p.send(p.nak(wire.NAKSequence, 12))
	p.wantRequest("there is room for one packet", wire.SendFirst, 12)
	p.room = -1
	p.send(p.ack(17))
	p.wantRequest("the ACK covers packets of the first transmission", wire.SendMiddle, 18)
	p.wantRequest("", wire.SendLast, 19)
	p.wantQuiet("no other packet is sent")
}

func TestWireTimeoutsAreCounted(t *testing.T) {
	for _, retries := range []uint8{0, 1, 7} {
		p := newScript(t, func(attr *verbs.QPAttr) { attr.RetryCount = retries })
		p.post(1, verbs.OpSend, 2*scriptMTU)
		p.post(2, verbs.OpRead, 1)
		for range retries + 1 {
			p.wantRequest("an attempt", wire.SendFirst, 0)
			p.wantRequest("", wire.SendLast, 1)
			p.wantRequest("", wire.ReadRequest, 2)
			p.advance(scriptTimeout - 1)
			if retries > 0 {
				require.True(t, p.wantRequest("the tail probe", wire.SendFirst, 0).BTH().AckReq())
			}
			p.wantQuiet("the timeout has not passed")
			require.Empty(t, p.e.DrainCQ())
			p.advance(1)
		}
		require.EqualValues(t, retries+1, p.timeouts, "each timeout is reported to the packetConn")
		p.wantQuiet("the retries are used up")
		p.wantDone("the retries are used up", verbs.StatusRetryExcErr, 1, 2)
	}
}

func TestWireProgressStartsTheCountAnew(t *testing.T) {
	p := newScript(t, func(attr *verbs.QPAttr) { attr.RetryCount = 1 })
	p.post(1, verbs.OpSend, 6*scriptMTU)
	for seq := range uint64(5) {
		p.out = nil
		// The timer first finds an acknowledged packet and restarts. Then the timer
		// sends the packets again.
		for range 2 {
			if len(p.out) == 0 {
				p.advance(scriptTimeout)
			}
		}
		require.NotZero(t, len(p.out), "a second attempt")
		p.send(p.ack(seq))
		require.Empty(t, p.e.DrainCQ())
	}
	p.send(p.ack(5))
	p.wantDone("all packets are acknowledged", verbs.StatusSuccess, 1)
	require.True(t, p.e.QP.Shard.Demux.Idle())
	p.advance(2 * scriptTimeout)
	require.Zero(t, p.e.QP.Shard.Timers.Len(), "no timer is running")
}

// The timer may fire soon after a NAK. The packets that were sent again because of the
// NAK are then not sent once more.
func TestWireTimeoutAfterRetransmission(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 1)
	p.advance(scriptTimeout - 1)
	p.out = nil
	p.send(p.nak(wire.NAKSequence, 0))
	p.wantRequest("the second attempt", wire.SendOnly, 0)
	p.advance(1)
	p.wantQuiet("no further retransmission so soon")
	p.advance(scriptTimeout)
	p.wantRequest("the third attempt", wire.SendOnly, 0)
}

// A timer that runs for an earlier request does not shorten the ACK timeout of a later
// one.
func TestWireTimeoutIsNotShortened(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 1)
	p.advance(scriptTimeout - 1)
	p.send(p.ack(0))
	p.post(2, verbs.OpSend, 1)
	p.out = nil
	p.advance(scriptTimeout / 2)
	p.wantQuiet("the request was sent a short time ago")
	p.advance(scriptTimeout / 2)
	p.wantRequest("the tail probe", wire.SendOnly, 1)
	p.wantQuiet("the timeout of the request has not passed")
	p.advance(scriptTimeout)
	p.wantRequest("the timeout of the request has passed", wire.SendOnly, 1)
}

// When the last packets of a transfer are lost, the ACK timeout begins at the last
// acknowledgement. Soon after the timeout, the packets are sent again.
func TestWireTailLoss(t *testing.T) {
	look := scriptTimeout / 4
	for answered := time.Duration(1); answered < scriptTimeout; answered += look / 3 {
		p := newScript(t)
		p.post(1, verbs.OpSend, 1)
		p.post(2, verbs.OpSend, 1)
		p.advanceInSteps(answered)
		p.send(p.ack(0))
		p.out = nil
		p.advanceInSteps(scriptTimeout - 1)
		p.wantRequest("the tail probe", wire.SendOnly, 1)
		p.wantQuiet("the timeout has not passed")
		p.advanceInSteps(1 + look + pollInterval)
		p.wantRequest("the retransmission", wire.SendOnly, 1)
	}
}

var pollInterval = scriptTimeout / 100

// advanceInSteps advances the clock in steps of pollInterval, like an owner that polls
// regularly.
func (p *script) advanceInSteps(d time.Duration) {
	for ; d > pollInterval; d -= pollInterval {
		p.advance(pollInterval)
	}
	p.advance(d)
}

// If shard.drive() is called late, one call does all checks that the timer has missed.
func TestWireTimeoutOfALateOwner(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 1)
	p.out = nil
	p.advance(time.Minute)
	p.wantRequest("the tail probe", wire.SendOnly, 0)
	p.wantRequest("the retransmission", wire.SendOnly, 0)
	p.wantQuiet("there is one retransmission")
}

func TestWireNoTimeout(t *testing.T) {
	p := newScript(t, func(attr *verbs.QPAttr) { attr.Timeout = 0 })
	p.post(1, verbs.OpSend, 1)
	p.out = nil
	require.Zero(t, p.e.QP.Shard.Timers.Len())
	p.advance(time.Hour)
	p.wantQuiet("timeout code 0 means no timeout")
}

func TestWireSequenceNAKsCountAsRetries(t *testing.T) {
	p := newScript(t, func(attr *verbs.QPAttr) { attr.RetryCount = 1 })
	p.post(1, verbs.OpSend, 1)
	p.send(p.nak(wire.NAKSequence, 0))
	require.Empty(t, p.e.DrainCQ())
	p.advance(scriptTimeout)
	p.advance(scriptTimeout)
	p.wantDone("one retry after the NAK, and none after the timeout", verbs.StatusRetryExcErr, 1)
}

func TestWireReceiverNotReady(t *testing.T) {
	p := newScript(t) // The RNR retry count is 2.
	const code = 14
	wait := verbs.RNRDelay(code)
	p.post(1, verbs.OpSend, 1)
	p.post(2, verbs.OpSend, 2*scriptMTU)
	p.out = nil
	for range 2 {
		p.send(p.syndrome(wire.RNRNAK(code), 1))
		p.post(3, verbs.OpSend, 1)
		// A sequence NAK that arrives after the RNR NAK does not end the wait for the RNR
		// timer.
		p.send(p.nak(wire.NAKSequence, 1))
		p.advance(wait - 1)
		p.wantQuiet("the RNR timer has not fired")
		p.advance(1)
		p.wantRequest("the message is sent again", wire.SendFirst, 1)
		p.wantRequest("", wire.SendLast, 2)
		p.send(p.nak(wire.NAKSequence, 1))
		p.out = nil
	}
	p.wantDone("the first message was delivered", verbs.StatusSuccess, 1)
	require.Zero(t, p.conn.retry.retries, "RNR retries have a count of their own")
	p.send(p.syndrome(wire.RNRNAK(code), 1))
	p.wantDone("a third RNR retry is not allowed", verbs.StatusRNRRetryExcErr, 2, 3, 3)
}

func TestWireReceiverNeverReady(t *testing.T) {
	p := newScript(t, func(attr *verbs.QPAttr) { attr.RNRRetry = verbs.RNRRetryForever })
	p.post(1, verbs.OpSend, 1)
	for range 20 {
		p.wantRequest("the message is sent again", wire.SendOnly, 0)
		p.send(p.syndrome(wire.RNRNAK(1), 0))
		p.advance(verbs.RNRDelay(1))
	}
	p.wantRequest("the message is sent again", wire.SendOnly, 0)
	require.Empty(t, p.e.DrainCQ())
}

// While the RNR timer runs, a shorter ACK timeout does not expire.
func TestWireRNRDelayIsNoTimeout(t *testing.T) {
	p := newScript(t, func(attr *verbs.QPAttr) { attr.Timeout, attr.RetryCount = 10, 0 })
	p.post(1, verbs.OpSend, 1)
	p.out = nil
	p.send(p.syndrome(wire.RNRNAK(0), 0)) // The RNR timer code 0 means 655 ms.
	for range 100 {
		p.advance(verbs.AckTimeout(10))
	}
	p.wantQuiet("the RNR timer runs")
	require.Empty(t, p.e.DrainCQ())
}

// When the last packets of a message are lost, the requester sends a tail probe before
// the ACK timeout. The answer to the probe shows which packets are missing.
func TestWireTailProbeBeforeTimeout(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 6*scriptMTU)
	p.post(2, verbs.OpSend, 1)
	p.out = nil
	p.advance(scriptTimeout / 4)
	require.True(t, p.wantRequest("the oldest packet is the tail probe", wire.SendFirst, 0).BTH().AckReq())
	p.wantQuiet("only the tail probe is sent")
	p.send(p.ack(3))
	p.wantRequest("the packets that the peer lacks", wire.SendMiddle, 4)
	p.wantRequest("", wire.SendLast, 5)
	p.wantRequest("", wire.SendOnly, 6)
	p.wantQuiet("")
	p.send(p.ack(6))
	p.wantDone("all requests have completed", verbs.StatusSuccess, 1, 2)
	require.Zero(t, p.timeouts)
}

// After a lost acknowledgement, the requester repeats only one packet, the tail probe.
func TestWireTailProbeAfterLostAck(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 6*scriptMTU)
	p.out = nil
	p.advance(scriptTimeout / 4)
	p.wantRequest("the oldest packet is the tail probe", wire.SendFirst, 0)
	p.send(p.ack(5))
	p.wantQuiet("")
	p.wantDone("the message had arrived", verbs.StatusSuccess, 1)
}

// With retry count 0, there is no tail probe.
func TestWireNoTailProbeWithoutRetries(t *testing.T) {
	p := newScript(t, func(attr *verbs.QPAttr) { attr.RetryCount = 0 })
	p.post(1, verbs.OpSend, 1)
	p.out = nil
	p.advance(scriptTimeout - 1)
	p.wantQuiet("")
	p.advance(1)
	p.wantDone("", verbs.StatusRetryExcErr, 1)
}

// newRetransmission returns a retransmission and a pointer to the time of its clock.
func newRetransmission(t *testing.T) (r *retransmission, s *qp.Shard, now *time.Duration) {
	now, r = new(time.Duration), new(retransmission)
	s = newConnShard(t, func() time.Duration { return *now })
	r.timer.Init(s, timerheap.Func(func() {}))
	return r, s, now
}

// If there is no progress, the timer expires after the ACK timeout, at the fourth check.
func TestRetransmissionTimer(t *testing.T) {
	const code = 10 // code of an ACK timeout of 4.2 ms
	r, s, now := newRetransmission(t)
	r.start(code)
	for _, want := range []timerAction{timerWait, timerWait, timerWait, timerExpired} {
		*now += checkPeriod(code)
		require.Equal(t, *now, r.timer.When())
		s.Timers.Expire(*now)
		require.Equal(t, want, r.onTimer(code))
	}
	require.False(t, r.timer.Running())
	r.start(code)
	r.onProgress()
	require.Equal(t, timerRestart, r.onTimer(code))
	require.Equal(t, verbs.AckTimeout(maxCheckCode), checkPeriod(20), "long timeouts are checked often")
}

func TestRetransmissionRetries(t *testing.T) {
	var r retransmission
	require.True(t, r.countRetry(2))
	require.True(t, r.countRetry(2))
	require.False(t, r.countRetry(2))
	r.onProgress()
	require.True(t, r.countRetry(2), "the count begins again after progress")
}

func TestRetransmissionStates(t *testing.T) {
	var r retransmission
	r.goBack(recoveryResend)
	require.True(t, r.progressed)
	require.Zero(t, r.onProgress(), "no tail probe was sent")
	require.Equal(t, recoveryNone, r.state)
	r.startTailProbe(0)
	require.True(t, r.tailProbing())
	require.False(t, r.progressed)
	require.EqualValues(t, 1, r.onProgress())
	r.startTailProbe(7)
	r.goBack(recoveryResend)
	require.False(t, r.tailProbing())
	require.Zero(t, r.onProgress(), "a loss was reported before the tail probe was answered")
	r.startTailProbe(7)
	require.EqualValues(t, 7, r.onProgress())
	require.False(t, r.tailProbing())
}
