//go:build linux

package rcpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// exchangeMessage delivers a SEND that requests an acknowledgement, and posts a reply.
// The queue pair must send the reply before the acknowledgement.
func (p *script) exchangeMessage(seq uint64) {
	p.t.Helper()
	p.e.Recv(seq, 0, 10)
	p.deliver(withAckReq(p.request(wire.SendOnly, seq, 10)))
	p.wantQuiet("the acknowledgement is delayed")
	p.post(seq, verbs.OpSend, 1)
	p.wantRequest("the reply is not delayed", wire.SendOnly, seq)
	p.deliver(p.ack(seq))
}

// A queue pair that sends no request acknowledges in the next call of shard.drive().
func TestWireAckWithoutReply(t *testing.T) {
	p := newScript(t)
	p.e.Recv(1, 0, 10)
	p.send(withAckReq(p.request(wire.SendOnly, 0, 10)))
	p.wantSyndrome("the acknowledgement is not delayed", wire.AckNoCredits, 0)
}

// newShortTurns makes a script whose owner has had short turns.
func newShortTurns(t *testing.T) *script {
	p := newScript(t)
	for range packets.PaceTurns {
		p.conn.demux.Answer(func() time.Duration { return 0 })
	}
	return p
}

// While turns are short, a queue pair that sends a request delays acknowledgements, for
// at most maxAckDelays calls of shard.drive().
func TestWireAckIsDelayed(t *testing.T) {
	p := newShortTurns(t)
	p.exchangeMessage(0)
	for range maxAckDelays - 1 {
		p.e.QP.Shard.Demux.SendDue()
		p.wantQuiet("the acknowledgement is delayed")
	}
	p.e.QP.Shard.Demux.SendDue()
	p.wantSyndrome("the delay is over", wire.AckNoCredits, 0)
	p.e.QP.Shard.Demux.SendDue()
	p.wantQuiet("the acknowledgement is sent once")
}

// One acknowledgement covers all messages that arrive while it is delayed.
func TestWireAckBurst(t *testing.T) {
	p := newShortTurns(t)
	for seq := range uint64(maxDelayedPackets - 1) {
		p.exchangeMessage(seq)
		p.e.DrainCQ()
	}
	p.wantQuiet("the acknowledgement is delayed")
	p.e.Recv(99, 0, 10)
	p.send(withAckReq(p.request(wire.SendOnly, maxDelayedPackets-1, 10)))
	p.wantSyndrome("one acknowledgement for all messages", wire.AckNoCredits, maxDelayedPackets-1)
}

// A delayed acknowledgement is sent before the shard's owner sleeps.
func TestWireAckBeforeSleep(t *testing.T) {
	p := newShortTurns(t)
	p.exchangeMessage(0)
	p.e.QP.Shard.Demux.SendAll()
	p.wantSyndrome("the acknowledgement is sent before sleep", wire.AckNoCredits, 0)
}

// A duplicate is acknowledged without delay, because the peer lacks the acknowledgement.
func TestWireAckOfDuplicate(t *testing.T) {
	p := newShortTurns(t)
	p.exchangeMessage(0)
	p.send(withAckReq(p.request(wire.SendOnly, 0, 10)))
	p.wantSyndrome("the acknowledgement is not delayed", wire.AckNoCredits, 0)
}

// takeTurn delivers SENDs that request an acknowledgement, and polls the CQ until they
// have completed. The result inTime is true if these messages were acknowledged before
// the last poll has returned, which is before a callback can run. Then a callback of the
// given length answers each message. The result acks is the number of acknowledgements
// that were sent since the last turn.
func (p *script) takeTurn(first uint64, messages int, callback time.Duration) (inTime bool, acks int) {
	p.t.Helper()
	var arrival qp.Timer
	arrival.Init(p.e.QP.Shard, timerheap.Func(func() {
		for i := range uint64(messages) {
			p.e.Recv(first+i, 0, 10)
			p.deliver(withAckReq(p.request(wire.SendOnly, first+i, 10)))
		}
	}))
	arrival.Start(0)
	qptest.CheckAllNext(p.e.QP.Shard)
	for got := 0; got == 0; {
		got = len(p.e.DrainCQ())
		require.Contains(p.t, []int{0, messages}, got)
	}
	for acks = 0; len(p.out) > 0; acks++ {
		last := p.next("only acknowledgements are sent before the callback", wire.Acknowledge, p.out[0].BTH().PSN())
		inTime = last.BTH().PSN() == packets.PSNOf(theirBase, first+uint64(messages)-1)
	}
	for i := range uint64(messages) {
		p.now += callback
		p.post(first+i, verbs.OpSend, 1)
		p.wantRequest("the answer of the callback", wire.SendOnly, first+i)
	}
	p.deliver(p.ack(first + uint64(messages) - 1))
	require.Len(p.t, p.e.DrainCQ(), messages, "the answers have completed")
	return inTime, acks
}

// Callbacks that are not known to be short run after the acknowledgements of the turn's
// requests were sent.
func TestWireAckBeforeCallbacks(t *testing.T) {
	p := newScript(t)
	seq := uint64(0)
	for turn := range 3 * packets.PaceTurns {
		inTime, acks := p.takeTurn(seq, 1+turn%3, 5*time.Millisecond)
		require.True(t, inTime, "turn %d", turn)
		require.Equal(t, 1, acks, "one acknowledgement for all messages of a turn")
		seq += uint64(1 + turn%3)
	}
}

// While callbacks are short, an acknowledgement waits for the answers, and covers several
// messages. When callbacks become long, this ends after 2*packets.PaceTurns turns.
func TestWireAckFollowsTurns(t *testing.T) {
	p := newScript(t)
	seq := uint64(0)
	turns := func(n int, callback time.Duration) (inTime, acks int) {
		for range n {
			before, sent := p.takeTurn(seq, 1, callback)
			seq++
			if acks += sent; before {
				inTime++
			}
		}
		return inTime, acks
	}
	turns(packets.PaceTurns, 10*time.Microsecond)
	const short = 256
	inTime, acks := turns(short, 10*time.Microsecond)
	require.Less(t, inTime, short/2)
	require.Less(t, acks, short/2)
	turns(2*packets.PaceTurns, 5*time.Millisecond)
	inTime, acks = turns(2*packets.PaceTurns, 5*time.Millisecond)
	require.Equal(t, 2*packets.PaceTurns, inTime)
	require.Equal(t, 2*packets.PaceTurns, acks)
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
