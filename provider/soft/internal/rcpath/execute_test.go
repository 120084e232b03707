//go:build linux

package rcpath

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func (p *script) wantAsync(want verbs.AsyncEventType) {
	p.t.Helper()
	var ev verbs.AsyncEvent
	ok, err := p.dev.NextAsync(&ev)
	require.NoError(p.t, err)
	require.True(p.t, ok)
	require.Equal(p.t, want, ev.Type)
}

func TestWireAcknowledgementsAreCollected(t *testing.T) {
	p := newScript(t)
	for id := range uint64(4) {
		p.e.Recv(id, int(id)*4096, 4096)
	}
	p.send(p.request(wire.SendOnly, 0, 10))
	p.wantQuiet("no packet had the AckReq bit")
	p.send(withAckReq(p.request(wire.SendOnlyImm, 1, 0)), p.request(wire.SendFirst, 2, scriptMTU), withAckReq(p.request(wire.SendMiddle, 3, scriptMTU)))
	ack := p.wantResponse("one ACK for the burst, in the middle of a message", wire.Acknowledge, 3)
	require.Equal(t, wire.AckNoCredits, ack.AETH().Syndrome())
	require.EqualValues(t, 2, ack.AETH().MSN(), "two messages are complete")
	require.False(t, ack.BTH().AckReq())
	p.send(withAckReq(p.request(wire.SendLast, 4, 7)))
	require.EqualValues(t, 3, p.wantResponse("the end of the message", wire.Acknowledge, 4).AETH().MSN())
	p.wantQuiet("no other packet is sent")
	got := p.e.DrainCQ()
	require.Len(t, got, 3)
	require.EqualValues(t, 2*scriptMTU+7, got[2].ByteLen)
	require.Equal(t, byte(packets.PSNOf(theirBase, 3)), p.e.MR.Bytes()[2*4096+scriptMTU])
}

func TestWireGapIsReportedOnce(t *testing.T) {
	p := newScript(t)
	for id := range uint64(8) {
		p.e.Recv(id, 0, 10)
	}
	p.send(p.request(wire.SendOnly, 2, 1), withAckReq(p.request(wire.SendOnly, 3, 1)))
	p.wantSyndrome("the NAK names the expected packet", wire.NAK(wire.NAKSequence), 0)
	p.send(p.request(wire.SendOnly, 4, 1))
	p.wantQuiet("one NAK for one gap")
	p.send(p.request(wire.SendOnly, 0, 1))
	p.send(p.request(wire.SendOnly, 2, 1))
	p.wantSyndrome("the next gap", wire.NAK(wire.NAKSequence), 1)
	p.send(p.request(wire.SendOnly, 1, 1), p.request(wire.SendOnly, 3, 1), withAckReq(p.request(wire.SendOnly, 2, 1)))
	p.wantSyndrome("packets reordered within a burst", wire.AckNoCredits, 3)
	p.wantQuiet("no further packet is sent")
	require.Len(t, p.e.DrainCQ(), 4)
}

func TestWireDuplicatesAreAcknowledgedAgain(t *testing.T) {
	p := newScript(t)
	for id := range uint64(4) {
		p.e.Recv(id, 0, scriptMTU)
	}
	p.send(p.request(wire.SendOnly, 0, 1), p.request(wire.SendOnly, 1, 1), p.setRETH(p.request(wire.WriteFirst, 2, scriptMTU), 4096, 2*scriptMTU))
	p.e.MR.Bytes()[4096] = 0
	p.send(p.request(wire.SendOnly, 0, 1), p.request(wire.SendOnly, 1, 1), p.setRETH(p.request(wire.WriteFirst, 2, scriptMTU), 4096, 2*scriptMTU))
	p.wantSyndrome("an ACK of the newest executed packet, without AckReq", wire.AckNoCredits, 2)
	p.wantQuiet("one ACK for all duplicates")
	require.Len(t, p.e.DrainCQ(), 2, "duplicates are not executed again")
	require.Zero(t, p.e.MR.Bytes()[4096])
	// The WRITE is incomplete. The peer sends a READ where the responder expects the last
	// packet of the WRITE.
	p.send(p.read(3, 0, 2*scriptMTU))
	p.wantSyndrome("", wire.NAK(wire.NAKInvalidRequest), 3)
}

// The responder sends no ACK with the sequence of a READ. Such an ACK could make a
// requester complete the READ without its data.
func TestWireReadIsNeverAcknowledged(t *testing.T) {
	p := newScript(t)
	p.e.Recv(1, 0, 10)
	p.e.Recv(2, 0, 10)
	p.send(p.read(0, 0, 1))
	p.wantResponse("", wire.ReadResponseOnly, 0)
	p.send(p.request(wire.SendOnly, 0, 1))
	p.wantQuiet("the executed request was a READ")
	p.send(withAckReq(p.request(wire.SendOnly, 1, 1)), withAckReq(p.read(2, 0, 2*scriptMTU)))
	p.wantResponse("the READ response acknowledges the SEND", wire.ReadResponseFirst, 2)
	p.wantResponse("", wire.ReadResponseLast, 3)
	p.wantQuiet("the READ response acknowledges the READ")
	p.send(p.request(wire.SendOnly, 1, 1))
	p.wantSyndrome("the ACK covers the SEND and not the READ", wire.AckNoCredits, 1)
	p.send(withAckReq(p.read(4, 0, scriptMTU)), withAckReq(p.request(wire.SendOnly, 5, 1)))
	p.wantResponse("responses come first", wire.ReadResponseOnly, 4)
	p.wantSyndrome("the ACK follows the responses", wire.AckNoCredits, 5)
}

func TestWireReceiverWithoutBuffer(t *testing.T) {
	p := newScript(t) // With the script's attributes, the RNR timer code is 12.
	for name, pkt := range map[string]func(seq uint64) wire.Packet{
		"SEND":      func(seq uint64) wire.Packet { return p.request(wire.SendOnly, seq, 1) },
		"WRITE_IMM": func(seq uint64) wire.Packet { return p.setRETH(p.request(wire.WriteOnlyImm, seq, 1), 0, 1) },
	} {
		seq := p.conn.resp.expected
		p.send(pkt(seq), withAckReq(p.request(wire.SendOnly, seq+1, 1)))
		p.wantSyndrome(name, wire.RNRNAK(12), seq)
		p.wantQuiet("packets after the refused one are no gap")
		p.e.Recv(1, 0, 10)
		p.send(withAckReq(pkt(seq)))
		p.wantSyndrome("there is a buffer now", wire.AckNoCredits, seq)
		require.Len(t, p.e.DrainCQ(), 1)
	}
}

// A request for zero bytes needs no valid key or address (IBTA vol. 1, 9.7.4.1.3).
func TestWireZeroBytesNeedNoKey(t *testing.T) {
	p := newScript(t)
	p.send(withAckReq(p.request(wire.WriteOnly, 0, 0)), p.request(wire.ReadRequest, 1, 0))
	require.Empty(t, p.wantResponse("one empty response packet", wire.ReadResponseOnly, 1).Payload())
	p.wantQuiet("the response acknowledges the WRITE too")
}

func TestWireForeignPacketsAreDropped(t *testing.T) {
	p := newScript(t)
	p.e.Recv(1, 0, 10)
	good := func() wire.Packet { return withAckReq(p.request(wire.SendOnly, 0, 1)) }
	wrongKey, wrongQP := good(), good()
	wrongKey.BTH().SetPKey(0x8001)
	wrongQP.BTH().SetDestQP(p.e.QP.Num() + 1)
	p.send(wrongKey, wrongQP, p.packet(wire.UDSendOnly, theirBase, 1), p.packet(wire.CNP, 0, 0))
	p.e.QP.Shard.Demux.Receive(good(), &udp.Header{From: netip.MustParseAddr("fd00::98"), To: ownAddr})
	p.e.QP.Shard.Demux.SendDue()
	p.wantQuiet("all these packets are dropped")
	require.Empty(t, p.e.DrainCQ())
	p.send(good())
	p.wantSyndrome("a correct packet", wire.AckNoCredits, 0)
}

func TestWireAtomicIsCarriedOutOnce(t *testing.T) {
	p := newScript(t)
	word := p.e.MR.Bytes()[64:72]
	binary.NativeEndian.PutUint64(word, 40)
	atomic := func(op wire.Opcode, seq uint64, swapAdd, compare uint64) wire.Packet {
		pkt := p.request(op, seq, 0)
		pkt.AtomicETH().Set(p.e.MR.Addr()+64, p.e.MR.RKey(), swapAdd, compare)
		return pkt
	}
	result := func(why string, seq uint64) uint64 {
		return p.wantResponse(why, wire.AtomicAcknowledge, seq).AtomicAckETH().Original()
	}
	p.send(atomic(wire.FetchAdd, 0, 2, 0), atomic(wire.CompareSwap, 1, 7, 42))
	require.EqualValues(t, 40, result("the value before the atomic", 0))
	require.EqualValues(t, 42, result("the value before the atomic", 1))
	p.send(atomic(wire.FetchAdd, 0, 2, 0), atomic(wire.CompareSwap, 1, 7, 42))
	require.EqualValues(t, 40, result("the first result is sent again", 0))
	require.EqualValues(t, 42, result("the first result is sent again", 1))
	require.EqualValues(t, 7, binary.NativeEndian.Uint64(word))
	p.send(p.read(0, 0, 8), p.request(wire.SendOnly, 1, 1))
	p.wantQuiet("a duplicate with another operation is dropped")
	p.send(atomic(wire.FetchAdd, 2, 1, 0), atomic(wire.FetchAdd, 0, 2, 0))
	require.EqualValues(t, 7, result("", 2))
	p.wantQuiet("a duplicate without a response resource is dropped")
	require.EqualValues(t, 8, binary.NativeEndian.Uint64(word))
}

// A request that arrives for the third time shows that responses are lost. The responder
// then calls OnTimeout of the packets.Conn.
func TestWireReportsLostResponses(t *testing.T) {
	p := newScript(t)
	for seq := range uint64(2) {
		p.e.Recv(seq, 0, 64)
		for _, want := range []int{0, 0, 1} {
			p.timeouts = 0
			p.send(p.request(wire.SendOnly, seq, 1))
			require.Equal(t, want, p.timeouts)
		}
	}
}
