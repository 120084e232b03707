//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// exchangeMessage delivers a SEND that requests an acknowledgement, and posts a reply.
// The queue pair must send the reply before the acknowledgement.
func (p *script) exchangeMessage(seq uint64) {
	p.t.Helper()
	p.e.recv(seq, 0, 10)
	p.deliver(withAckReq(p.request(wire.SendOnly, seq, 10)))
	p.wantQuiet("the acknowledgement is delayed")
	p.post(seq, verbs.OpSend, 1)
	p.wantRequest("the reply is not delayed", wire.SendOnly, seq)
	p.deliver(p.ack(seq))
}

// A queue pair that sends no request acknowledges in the next call of shard.drive().
func TestWireAckWithoutReply(t *testing.T) {
	p := newScript(t)
	p.e.recv(1, 0, 10)
	p.send(withAckReq(p.request(wire.SendOnly, 0, 10)))
	p.wantSyndrome("the acknowledgement is not delayed", wire.AckNoCredits, 0)
}

// A queue pair that sends a request delays acknowledgements, for at most maxAckDelays
// calls of shard.drive().
func TestWireAckIsDelayed(t *testing.T) {
	p := newScript(t)
	p.exchangeMessage(0)
	for range maxAckDelays - 1 {
		p.e.qp.shard.demux.sendDue()
		p.wantQuiet("the acknowledgement is delayed")
	}
	p.e.qp.shard.demux.sendDue()
	p.wantSyndrome("the delay is over", wire.AckNoCredits, 0)
	p.e.qp.shard.demux.sendDue()
	p.wantQuiet("the acknowledgement is sent once")
}

// One acknowledgement covers all messages that arrive while it is delayed.
func TestWireAckBurst(t *testing.T) {
	p := newScript(t)
	for seq := range uint64(maxDelayedPackets - 1) {
		p.exchangeMessage(seq)
		p.e.drainCQ()
	}
	p.wantQuiet("the acknowledgement is delayed")
	p.e.recv(99, 0, 10)
	p.send(withAckReq(p.request(wire.SendOnly, maxDelayedPackets-1, 10)))
	p.wantSyndrome("one acknowledgement for all messages", wire.AckNoCredits, maxDelayedPackets-1)
}

// A delayed acknowledgement is sent before the shard's owner sleeps.
func TestWireAckBeforeSleep(t *testing.T) {
	p := newScript(t)
	p.exchangeMessage(0)
	p.e.qp.shard.demux.sendAll()
	p.wantSyndrome("the acknowledgement is sent before sleep", wire.AckNoCredits, 0)
}

// A duplicate is acknowledged without delay, because the peer lacks the acknowledgement.
func TestWireAckOfDuplicate(t *testing.T) {
	p := newScript(t)
	p.exchangeMessage(0)
	p.send(withAckReq(p.request(wire.SendOnly, 0, 10)))
	p.wantSyndrome("the acknowledgement is not delayed", wire.AckNoCredits, 0)
}

func TestAckDelayStates(t *testing.T) {
	var a ackDelay
	a.requestSent()
	require.False(t, a.due(), "no acknowledgement was due when the request was sent")
	a.schedule()
	require.Equal(t, ackDue, a.state)
	require.False(t, a.delay(1), "no reply was sent")
	a.requestSent()
	require.Equal(t, ackDelayed, a.state)
	require.True(t, a.delay(1))
	a.schedule()
	require.Equal(t, 2, a.drives, "a further request does not make the delay longer")
	require.False(t, a.delay(maxDelayedPackets), "too many packets")
	a.sent(maxDelayedPackets)
	require.Equal(t, ackDelay{drives: 3, ackedTo: maxDelayedPackets}, a)
	a.schedule()
	a.requestSent()
	require.True(t, a.delay(2*maxDelayedPackets-1))
	a.scheduleNow()
	require.False(t, a.delay(2*maxDelayedPackets-1))
	a.cancel()
	require.False(t, a.due())
	require.EqualValues(t, maxDelayedPackets, a.ackedTo)
}

func TestAckDelayEnds(t *testing.T) {
	var a ackDelay
	a.schedule()
	a.requestSent()
	for range maxAckDelays - 1 {
		require.True(t, a.delay(1))
	}
	require.False(t, a.delay(1))
}
