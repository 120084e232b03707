//go:build linux

package rcpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newCreditScript makes a script in which both sides advertise receive buffers.
func newCreditScript(t *testing.T) *script {
	p := newScript(t)
	p.conn.credits.Sends, p.conn.credits.Receives = true, true
	return p
}

// credits makes an ACK with the sequence seq. The ACK says that the peer has executed
// msn messages and has n receive buffers.
func (p *script) credits(seq, msn uint64, n int) wire.Packet {
	pkt := p.syndrome(wire.Ack(n), seq)
	pkt.AETH().Set(wire.Ack(n), packets.PSNOf(0, msn))
	return pkt
}

func TestWireCreditsAreAdvertised(t *testing.T) {
	p := newCreditScript(t)
	for id := range uint64(3) {
		p.e.Recv(id, 0, 2*scriptMTU)
	}
	p.e.QP.Shard.Demux.SendDue()
	p.wantQuiet("no request has arrived yet")
	p.send(withAckReq(p.request(wire.SendOnly, 0, 1)))
	p.wantSyndrome("", wire.Ack(2), 0)
	p.send(withAckReq(p.request(wire.SendFirst, 1, scriptMTU)))
	p.wantSyndrome("the buffer of an incomplete message counts", wire.Ack(2), 1)
	p.send(p.request(wire.SendLast, 2, 1), p.read(3, 0, 1))
	response := p.wantResponse("", wire.ReadResponseOnly, 3)
	require.Equal(t, wire.Ack(1), response.AETH().Syndrome(), "responses advertise credits too")
	require.Equal(t, packets.PSNOf(0, 3), response.AETH().MSN())
	p.send(withAckReq(p.request(wire.SendOnly, 4, 1)), withAckReq(p.request(wire.SendOnly, 5, 1)))
	p.wantSyndrome("there is no buffer for the message", wire.RNRNAK(12), 5)
	p.e.Recv(9, 0, 100)
	p.e.Recv(9, 0, 100)
	p.e.QP.Shard.Demux.SendDue()
	p.wantSyndrome("a peer without credits gets an advertisement", wire.Ack(2), 4)
	p.e.Recv(9, 0, 100)
	p.e.QP.Shard.Demux.SendDue()
	p.wantQuiet("a peer with credits gets no extra advertisement")
}

func TestWireCreditsAreNotAdvertised(t *testing.T) {
	p := newScript(t)
	p.e.Recv(1, 0, 100)
	p.send(withAckReq(p.request(wire.SendOnly, 0, 1)))
	p.wantSyndrome("flow control was not agreed", wire.AckNoCredits, 0)
	p.e.Recv(1, 0, 100)
	p.e.QP.Shard.Demux.SendDue()
	p.wantQuiet("")
}

func TestWireCreditsLimit(t *testing.T) {
	p := newCreditScript(t)
	for id := range uint64(6) {
		p.post(id, verbs.OpSend, 1)
	}
	p.wantRequest("one message is a probe", wire.SendOnly, 0)
	p.wantQuiet("the other messages wait")
	p.send(p.credits(0, 1, 2))
	p.wantRequest("", wire.SendOnly, 1)
	p.wantRequest("", wire.SendOnly, 2)
	p.wantQuiet("")
	p.send(p.credits(2, 3, 0))
	p.wantDone("", verbs.StatusSuccess, 0, 1, 2)
	p.wantQuiet("the peer has posted no buffer")
	p.send(p.credits(2, 3, 1))
	p.wantRequest("the requester has a credit again", wire.SendOnly, 3)
	p.send(p.credits(3, 4, 0), p.credits(1, 2, 2), p.credits(3, 99, 31))
	p.wantQuiet("late and invalid advertisements grant nothing")
	p.advance(probeDelay)
	p.wantRequest("no advertisement came, so a probe is sent", wire.SendOnly, 4)
	p.send(p.syndrome(wire.RNRNAK(12), 4))
	p.advance(verbs.RNRDelay(12))
	p.wantRequest("the probe is sent again after an RNR NAK", wire.SendOnly, 4)
	p.wantQuiet("only the probe is sent")
	p.send(p.syndrome(wire.AckNoCredits, 4))
	p.wantRequest("infinite credits", wire.SendOnly, 5)
	p.send(p.ack(5))
	p.wantDone("", verbs.StatusSuccess, 3, 4, 5)
}

// Without a credit, only the first packet of a long SEND is sent, as a probe.
func TestWireCreditsOfALongMessage(t *testing.T) {
	p := newCreditScript(t)
	p.post(1, verbs.OpSend, 3*scriptMTU)
	require.True(t, p.wantRequest("", wire.SendFirst, 0).BTH().AckReq())
	p.wantQuiet("")
	p.send(p.credits(0, 0, 0))
	p.wantRequest("the probe was acknowledged", wire.SendMiddle, 1)
	p.wantRequest("", wire.SendLast, 2)
	p.post(2, verbs.OpWriteImm, 3*scriptMTU)
	p.wantQuiet("")
	p.send(p.credits(2, 1, 0))
	p.advance(probeDelay)
	p.wantCount(3)
	p.out = nil
	p.advance(verbs.AckTimeout(14))
	p.advance(verbs.AckTimeout(14))
	// The requester first sends one probe packet. Then it sends all three packets again,
	// because repeated packets need no credit.
	p.wantCount(1 + 3)
	p.send(p.credits(5, 2, 0))
	p.wantDone("", verbs.StatusSuccess, 1, 2)
}

// An advertisement counts all messages, even WRITEs and READs, which take no receive
// buffer.
func TestWireCreditsCountAllMessages(t *testing.T) {
	p := newCreditScript(t)
	p.send(p.credits(0, 0, 0))
	p.conn.credits.limit = 5
	p.post(1, verbs.OpWrite, 1)
	p.post(2, verbs.OpRead, (readPiece+1)*scriptMTU)
	p.post(3, verbs.OpFetchAdd, 8)
	p.post(4, verbs.OpSend, 1)
	p.post(5, verbs.OpSend, 1)
	// The three packets are the WRITE and the requests for the two pieces of the READ. Each
	// piece counts as an outstanding READ. MaxRdAtomic is 2, so the atomic is not sent yet.
	p.wantCount(3)
	p.send(p.ack(0))
	require.EqualValues(t, 3, p.conn.credits.messagesSent, "a WRITE, and two pieces of a READ")
}

// A fast sender gets no RNR NAK, and sends every message at last, whatever the network
// loses.
func TestWireCreditsAvoidRNR(t *testing.T) {
	const messages = 200
	for seed := range uint64(20) {
		s := newSim(t, seed, netsim.Config{Drop: float64(seed%5) / 50, Delay: 1000})
		a, b := s.NewEnd(), s.NewEnd()
		s.Join(a, b, func(attr *verbs.QPAttr) { attr.RNRRetry = 0 })
		connOf(a.QP).credits.Receives, connOf(b.QP).credits.Sends = true, true
		for id := range uint64(messages) / 2 {
			a.Post(verbs.SendWR{ID: id, Flags: verbs.SendSignaled, Opcode: verbs.OpSend})
		}
		b.Recv(0, 0, 0)
		sent, received := messages/2, 0
		for done := 0; done < messages; {
			require.True(t, s.Step(), "seed %d: it hangs after %d", seed, done)
			for _, wc := range a.DrainCQ() {
				require.Equal(t, verbs.StatusSuccess, wc.Status, "seed %d, message %d", seed, wc.ID)
				if done++; sent < messages {
					a.Post(verbs.SendWR{ID: uint64(sent), Flags: verbs.SendSignaled, Opcode: verbs.OpSend})
					sent++
				}
			}
			for range b.DrainCQ() {
				received++
				b.Recv(0, 0, 0)
			}
		}
		require.Equal(t, messages, received)
	}
}

// newConnShard returns a shard with the given clock. Tests fire its timers with
// timers.Expire.
func newConnShard(t *testing.T, clock func() time.Duration) *qp.Shard {
	s, err := newPacketDevice(t, 1).Shard(0, verbs.ProgressManual)
	require.NoError(t, err)
	s.Clock = clock
	return s
}

// newRCCredits returns the credits of a connection with flow control, before any
// advertisement, and their shard, whose clock is at 0. The result w is a SEND that lacks a
// credit.
func newRCCredits(t *testing.T) (r *credits, w *qp.WQE, s *qp.Shard) {
	r, s = new(credits), newConnShard(t, func() time.Duration { return 0 })
	r.init(CreditFlow{Sends: true, Receives: true}, s, timerheap.Func(r.probeAllowed))
	return r, sendAt(0, 1), s
}

// sendAt returns a SEND with a first sequence and a message number.
func sendAt(firstSeq, number uint64) *qp.WQE {
	w := &qp.WQE{Op: verbs.OpSend}
	w.RC.FirstSeq, w.RC.MessageNumber = firstSeq, number
	return w
}

// advertisement returns an AETH. It says that the peer has executed msn messages. The
// syndrome s says for how many further messages there are receive buffers.
func advertisement(s wire.Syndrome, msn uint64) *wire.AETH {
	h := new(wire.AETH)
	h.Set(s, packets.PSNOf(0, msn))
	return h
}

// A requester without credits sends one message at once, as a probe. It sends another
// probe after each probeDelay in which no advertisement has arrived.
func TestRCCreditsProbe(t *testing.T) {
	r, w, s := newRCCredits(t)
	timers := &s.Timers
	require.True(t, r.lacks(w))
	require.True(t, r.allows(w, &requester{}), "the first message is a probe")
	r.probeSent()
	require.False(t, r.allows(w, &requester{seq: 1, sentEnd: 1}))
	require.Equal(t, creditProbeNone, r.probe, "the acknowledgement of an earlier packet will have an advertisement")
	at, w := &requester{ackedEnd: 1, seq: 1, sentEnd: 1}, sendAt(1, 2)
	require.False(t, r.allows(w, at))
	require.Equal(t, creditProbeWait, r.probe)
	timers.Expire(probeDelay - 1)
	require.False(t, r.allows(w, at))
	timers.Expire(probeDelay)
	require.True(t, r.allows(w, at))
	require.True(t, r.allows(w, at))
}

// An advertisement ends the wait for the next probe.
func TestRCCreditsUpdate(t *testing.T) {
	r, w, _ := newRCCredits(t)
	r.probeSent()
	require.False(t, r.allows(w, &requester{}))
	r.messagesSent = 3
	require.False(t, r.update(advertisement(wire.Ack(2), 4)), "this side has sent 3 messages only")
	require.True(t, r.update(advertisement(wire.Ack(2), 3)))
	require.Equal(t, creditProbeNone, r.probe)
	require.False(t, r.timer.Running())
	require.EqualValues(t, 5, r.limit)
	require.False(t, r.lacks(w))
	require.False(t, r.update(advertisement(wire.Ack(1), 3)), "an old advertisement")
	require.True(t, r.update(advertisement(wire.AckNoCredits, 3)))
	require.False(t, r.lacks(sendAt(0, 100)), "the credits are infinite")
}

// A requester without credits may still send some packets. Which packets these are
// depends on the operation, and on the packet's position in the request.
func TestRCCreditsPositions(t *testing.T) {
	send := sendAt(4, 1)
	imm := sendAt(4, 1)
	imm.Op = verbs.OpWriteImm
	write := sendAt(0, 1)
	write.Op = verbs.OpWrite
	for name, c := range map[string]struct {
		w    *qp.WQE
		at   requester
		want bool
	}{
		"a WRITE takes no buffer":                        {write, requester{seq: 4, sentEnd: 4}, true},
		"the packet was sent before":                     {send, requester{ackedEnd: 4, seq: 5, sentEnd: 6}, true},
		"the first packet is not acknowledged":           {send, requester{ackedEnd: 4, seq: 5, sentEnd: 5}, false},
		"the first packet is acknowledged":               {send, requester{ackedEnd: 5, seq: 5, sentEnd: 5}, true},
		"a WRITE takes the buffer at its last packet":    {imm, requester{ackedEnd: 4, seq: 5, sentEnd: 5}, true},
		"an earlier message is not acknowledged":         {imm, requester{ackedEnd: 3, seq: 4, sentEnd: 4}, false},
		"the probe is allowed, all else is acknowledged": {send, requester{ackedEnd: 4, seq: 4, sentEnd: 4}, true},
	} {
		r, _, _ := newRCCredits(t)
		require.Equal(t, c.want, r.allows(c.w, &c.at), name)
	}
}

func TestRCCreditsAdvertise(t *testing.T) {
	r, _, _ := newRCCredits(t)
	require.True(t, r.usedUp(0))
	require.Equal(t, wire.Ack(3), r.advertise(5, 3))
	require.False(t, r.usedUp(7))
	require.True(t, r.usedUp(8))
	require.False(t, r.enough(5))
	require.Equal(t, wire.Ack(64), r.advertise(5, 64))
	require.True(t, r.enough(5))
	r.Sends = false
	require.True(t, r.enough(1000))
	require.False(t, r.usedUp(1000))
}
