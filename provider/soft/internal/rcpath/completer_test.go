//go:build linux

package rcpath

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestWireAckCoversEarlierRequests(t *testing.T) {
	p := newScript(t)
	for id := range uint64(4) {
		p.post(id, verbs.OpSend, 2*scriptMTU)
	}
	p.send(p.ack(5))
	p.wantDone("the ACK covers three requests", verbs.StatusSuccess, 0, 1, 2)
	p.send(p.ack(6), p.ack(2))
	p.wantDone("ACKs for a part of a request, and for earlier ones", verbs.StatusSuccess)
	p.send(p.syndrome(wire.Ack(5), 7))
	p.wantDone("an ACK with credits", verbs.StatusSuccess, 3)
}

func TestWireIgnoredResponses(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 2*scriptMTU)
	p.post(2, verbs.OpSend, 1)
	p.send(p.ack(1))
	p.wantDone("the first request is acknowledged", verbs.StatusSuccess, 1)
	p.out = nil
	const reserved = wire.Syndrome(2 << 5)
	for name, pkt := range map[string]wire.Packet{
		"ACK of a packet that was never sent":     p.ack(3),
		"NAK of a packet that was never sent":     p.nak(wire.NAKInvalidRequest, 3),
		"ACK before the first sequence":           p.packet(wire.Acknowledge, ourBase.Add(-1), 0),
		"late NAK":                                p.nak(wire.NAKInvalidRequest, 1),
		"late sequence NAK":                       p.nak(wire.NAKSequence, 0),
		"late RNR NAK":                            p.syndrome(wire.RNRNAK(1), 0),
		"reserved syndrome":                       p.syndrome(reserved, 2),
		"NAK of RD":                               p.nak(4, 2),
		"reserved NAK":                            p.nak(31, 2),
		"READ response to a SEND":                 p.response(wire.ReadResponseOnly, 2, 1),
		"atomic response to a SEND":               p.response(wire.AtomicAcknowledge, 2, 0),
		"packet of another transport":             p.packet(wire.UDSendOnly, ourBase, 0),
		"congestion notification":                 p.packet(wire.CNP, 0, 0),
		"READ response to an acknowledged packet": p.response(wire.ReadResponseOnly, 0, 1),
	} {
		p.send(pkt)
		require.Empty(t, p.e.DrainCQ(), name)
		p.wantQuiet(name)
		require.Equal(t, verbs.StateRTS, p.e.QP.State(), name)
	}
	p.send(p.ack(2))
	p.wantDone("the connection still works", verbs.StatusSuccess, 2)
}

func TestWireResponsesAckEarlierRequests(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 1)
	p.post(2, verbs.OpRead, 2*scriptMTU)
	p.post(3, verbs.OpWrite, 1)
	p.post(4, verbs.OpFetchAdd, 8)
	p.send(p.response(wire.ReadResponseFirst, 1, scriptMTU))
	p.wantDone("the READ response acknowledges the SEND before it", verbs.StatusSuccess, 1)
	result := p.response(wire.AtomicAcknowledge, 4, 0)
	result.AtomicAckETH().Set(0x0102030405060708)
	p.send(p.response(wire.ReadResponseLast, 2, scriptMTU), result)
	p.wantDone("the other requests have completed", verbs.StatusSuccess, 2, 3, 4)
	require.Equal(t, uint64(0x0102030405060708), binary.NativeEndian.Uint64(p.e.MR.Bytes()))
}

// An ACK does not complete a READ whose response was lost. The requester requests the
// missing part again.
func TestWireAckAfterLostReadResponse(t *testing.T) {
	for name, seq := range map[string]uint64{"ACK of the READ's last packet": 3, "ACK of the request after the READ": 4} {
		p := newScript(t)
		p.post(1, verbs.OpSend, 1)
		p.post(2, verbs.OpRead, 3*scriptMTU)
		p.post(3, verbs.OpSend, 1)
		p.send(p.response(wire.ReadResponseFirst, 1, scriptMTU))
		p.wantDone(name, verbs.StatusSuccess, 1)
		p.out = nil
		p.send(p.ack(seq), p.ack(seq), p.nak(wire.NAKInvalidRequest, 4))
		p.wantDone(name, verbs.StatusSuccess)
		again := p.wantRequest(name, wire.ReadRequest, 2)
		require.EqualValues(t, 2*scriptMTU, again.RETH().Length(), name)
		p.wantRequest(name, wire.SendOnly, 4)
		p.wantQuiet("there is one retransmission for one loss")
		p.send(p.response(wire.ReadResponseFirst, 2, scriptMTU), p.response(wire.ReadResponseLast, 3, scriptMTU), p.ack(4))
		p.wantDone(name, verbs.StatusSuccess, 2, 3)
	}
}

func TestWireReadGoesOnFromTheFirstMissingPacket(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpRead, 4*scriptMTU)
	p.post(2, verbs.OpSend, 1)
	p.out = nil
	p.send(p.response(wire.ReadResponseFirst, 0, scriptMTU), p.response(wire.ReadResponseMiddle, 2, scriptMTU), p.response(wire.ReadResponseLast, 3, scriptMTU))
	again := p.wantRequest("the READ continues at the second packet", wire.ReadRequest, 1)
	require.EqualValues(t, 0x10000+scriptMTU, again.RETH().Addr())
	require.EqualValues(t, 3*scriptMTU, again.RETH().Length())
	p.wantRequest("the requests after it are sent again", wire.SendOnly, 4)
	p.send(p.response(wire.ReadResponseLast, 3, scriptMTU))
	p.wantQuiet("the READ is requested again once")
	// When a READ is requested again, rxe continues with a MIDDLE packet, and network
	// cards with a FIRST. The requester accepts both, and ignores late duplicates.
	p.send(p.response(wire.ReadResponseFirst, 0, scriptMTU), p.response(wire.ReadResponseMiddle, 1, scriptMTU),
		p.response(wire.ReadResponseOnly, 2, scriptMTU), p.response(wire.ReadResponseLast, 3, scriptMTU))
	p.wantDone("the READ has completed", verbs.StatusSuccess, 1)
	for i := range 4 {
		require.Equal(t, byte(packets.PSNOf(ourBase, uint64(i))), p.e.MR.Bytes()[i*scriptMTU])
	}
}

// A READ's response that seemed lost may only be late. When it arrives, the field
// readsInFlight must not become negative.
func TestWireLateResponseAndTheDepth(t *testing.T) {
	p := newScript(t, func(attr *verbs.QPAttr) { attr.MaxRdAtomic = 1 })
	p.post(1, verbs.OpRead, 1)
	p.post(2, verbs.OpSend, 1)
	p.send(p.ack(1), p.response(wire.ReadResponseOnly, 0, 1), p.ack(1))
	p.wantDone("both requests have completed", verbs.StatusSuccess, 1, 2)
	p.out = nil
	p.post(3, verbs.OpRead, 2*readPiece*scriptMTU)
	p.wantRequest("only one READ may be outstanding", wire.ReadRequest, 2)
	p.wantQuiet("only one READ may be outstanding")
}

func TestWireResponseOfAWrongLength(t *testing.T) {
	for name, give := range map[string]func(*script) wire.Packet{
		"short FIRST response":  func(p *script) wire.Packet { return p.response(wire.ReadResponseFirst, 0, scriptMTU-4) },
		"long FIRST response":   func(p *script) wire.Packet { return p.response(wire.ReadResponseFirst, 0, scriptMTU+4) },
		"response of an atomic": func(p *script) wire.Packet { return p.response(wire.AtomicAcknowledge, 0, 0) },
		"short LAST response": func(p *script) wire.Packet {
			p.send(p.response(wire.ReadResponseFirst, 0, scriptMTU))
			return p.response(wire.ReadResponseLast, 1, 4)
		},
		"long LAST response": func(p *script) wire.Packet {
			p.send(p.response(wire.ReadResponseFirst, 0, scriptMTU))
			return p.response(wire.ReadResponseLast, 1, 6)
		},
	} {
		p := newScript(t)
		p.post(1, verbs.OpRead, scriptMTU+5)
		p.post(2, verbs.OpSend, 1)
		p.send(give(p))
		p.wantDone(name, verbs.StatusBadRespErr, 1, 2)
	}
}

func TestWireReadIntoMemoryThatWasClosed(t *testing.T) {
	p := newScript(t)
	m, err := p.e.PD.Alloc(&verbs.AllocAttr{Size: 4096, Access: verbs.AccessLocalWrite})
	require.NoError(t, err)
	p.e.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, SGEs: []verbs.SGE{verbs.SGEOf(m, 0, 2*scriptMTU)}})
	require.NoError(t, m.Close())
	p.send(p.response(wire.ReadResponseFirst, 0, scriptMTU))
	p.wantDone("the first response packet fails the request", verbs.StatusLocProtErr, 1)
}

// When a connection fails, its packets are no longer in flight. The shared congestion
// window does not grow.
func TestWireCongestionAfterFailedRead(t *testing.T) {
	p := newScript(t)
	g := p.conn.cong.shared
	g.window = 16
	other := connCongestion{shared: g}
	other.setInFlight(8)
	m, err := p.e.PD.Alloc(&verbs.AllocAttr{Size: 4096, Access: verbs.AccessLocalWrite})
	require.NoError(t, err)
	p.e.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, SGEs: []verbs.SGE{verbs.SGEOf(m, 0, scriptMTU)}})
	p.post(2, verbs.OpSend, 3*scriptMTU)
	require.EqualValues(t, 8+4, g.inFlight)
	require.NoError(t, m.Close())
	p.send(p.response(wire.ReadResponseOnly, 0, scriptMTU))
	p.wantDone("the response can not be stored", verbs.StatusLocProtErr, 1, 2)
	require.EqualValues(t, 8, g.inFlight)
	require.EqualValues(t, 16, g.window)
}

// When a request has failed, the lost response of a later READ is not requested again.
func TestWireNoRetransmissionAfterFailure(t *testing.T) {
	p := newScript(t)
	g := p.conn.cong.shared
	p.conn.cong.recoveryEnd, g.window = 0, 100
	p.post(1, verbs.OpSend, 1)
	p.post(2, verbs.OpRead, scriptMTU)
	oldest, _ := p.e.QP.OldestRequest()
	oldest.Status = verbs.StatusLocProtErr
	p.send(p.ack(1))
	require.Equal(t, verbs.StateError, p.e.QP.State())
	require.EqualValues(t, 100, g.window)
	require.Zero(t, g.inFlight)
}

func TestWireNAKs(t *testing.T) {
	for code, status := range map[wire.NAKCode]verbs.Status{
		wire.NAKInvalidRequest:    verbs.StatusRemInvReqErr,
		wire.NAKRemoteAccess:      verbs.StatusRemAccessErr,
		wire.NAKRemoteOperational: verbs.StatusRemOpErr,
	} {
		p := newScript(t)
		p.post(1, verbs.OpSend, 1)
		p.post(2, verbs.OpWrite, 3*scriptMTU)
		p.post(3, verbs.OpSend, 1)
		p.out = nil
		p.send(p.nak(code, 0))
		p.wantDone(code.String(), status, 1, 2, 3)

		p = newScript(t)
		p.post(1, verbs.OpSend, 1)
		p.post(2, verbs.OpWrite, 3*scriptMTU)
		p.e.QP.Attributes().RetryCount = 0
		p.out = nil
		p.send(p.nak(code, 2))
		got := p.e.DrainCQ()
		require.Len(t, got, 2)
		require.Equal(t, verbs.StatusSuccess, got[0].Status, "the NAK acknowledges the request before it")
		require.Equal(t, status, got[1].Status)
		p.send(p.read(0, 0, 10))
		p.wantQuiet("a queue pair in error does not respond")
	}
}
