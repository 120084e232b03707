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

func TestWireMessageInPackets(t *testing.T) {
	for _, c := range []struct {
		op                        verbs.Opcode
		first, middle, last, only wire.Opcode
	}{
		{op: verbs.OpSend, first: wire.SendFirst, middle: wire.SendMiddle, last: wire.SendLast, only: wire.SendOnly},
		{op: verbs.OpSendImm, first: wire.SendFirst, middle: wire.SendMiddle, last: wire.SendLastImm, only: wire.SendOnlyImm},
		{op: verbs.OpWrite, first: wire.WriteFirst, middle: wire.WriteMiddle, last: wire.WriteLast, only: wire.WriteOnly},
		{op: verbs.OpWriteImm, first: wire.WriteFirst, middle: wire.WriteMiddle, last: wire.WriteLastImm, only: wire.WriteOnlyImm},
	} {
		p := newScript(t)
		for i := range 3 * scriptMTU {
			p.e.MR.Bytes()[i] = byte(i)
		}
		p.post(1, c.op, 2*scriptMTU+1, verbs.SendSolicited)
		p.post(2, c.op, 0)
		first := p.wantRequest("the first packet", c.first, 0)
		middle := p.wantRequest("the middle packet", c.middle, 1)
		last := p.wantRequest("the last packet", c.last, 2)
		only := p.wantRequest("an empty message", c.only, 3)
		p.wantQuiet("no other packet is sent")
		require.Equal(t, []bool{false, false, true, true}, []bool{first.BTH().AckReq(), middle.BTH().AckReq(), last.BTH().AckReq(), only.BTH().AckReq()})
		require.Equal(t, []bool{false, false, true, false}, []bool{first.BTH().Solicited(), middle.BTH().Solicited(), last.BTH().Solicited(), only.BTH().Solicited()})
		require.Equal(t, p.e.MR.Bytes()[:scriptMTU], first.Payload())
		require.Equal(t, p.e.MR.Bytes()[2*scriptMTU:][:1], last.Payload())
		require.Equal(t, 3, last.BTH().PadCount())
		require.EqualValues(t, wire.DefaultPKey, last.BTH().PKey())
		if h := first.RETH(); h != nil {
			require.Equal(t, []uint64{0x10000, 7, 2*scriptMTU + 1}, []uint64{h.Addr(), uint64(h.RKey()), uint64(h.Length())})
		}
		if h := last.ImmDt(); h != nil {
			require.EqualValues(t, 99, h.Value())
		}
		p.send(p.ack(3))
		p.wantDone("both are acknowledged", verbs.StatusSuccess, 1, 2)
	}
}

func TestWireWindowAndAckRequests(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 300*scriptMTU)
	for seq := range uint64(maxConnWindow) {
		op := wire.SendMiddle
		if seq == 0 {
			op = wire.SendFirst
		}
		require.Equal(t, seq%ackEveryPackets == ackEveryPackets-1, p.wantRequest("packets up to the window", op, seq).BTH().AckReq())
	}
	p.wantQuiet("the window is full")
	p.send(p.ack(31))
	for seq := range uint64(32) {
		p.wantRequest("the window has moved", wire.SendMiddle, maxConnWindow+seq)
	}
	p.wantQuiet("the window is full again")
}

func TestWireReadInPieces(t *testing.T) {
	p := newScript(t, func(attr *verbs.QPAttr) { attr.MaxRdAtomic = 2 })
	const length = 80*scriptMTU + 5
	p.post(1, verbs.OpRead, length)
	for i := range uint64(2) {
		pkt := p.wantRequest("as many READs as the peer has response resources", wire.ReadRequest, i*readPiece)
		require.Equal(t, 0x10000+i*readPiece*scriptMTU, pkt.RETH().Addr())
		require.EqualValues(t, readPiece*scriptMTU, pkt.RETH().Length())
		require.True(t, pkt.BTH().AckReq())
	}
	p.wantQuiet("the peer's response resources are used up")
	for seq := range uint64(readPiece) {
		p.send(p.response(wire.ReadResponseMiddle, seq, scriptMTU))
	}
	last := p.wantRequest("the response of the first piece is complete", wire.ReadRequest, 2*readPiece)
	require.EqualValues(t, 16*scriptMTU+5, last.RETH().Length())
	for seq := uint64(readPiece); seq < 80; seq++ {
		p.send(p.response(wire.ReadResponseMiddle, seq, scriptMTU))
	}
	require.Empty(t, p.e.DrainCQ())
	p.send(p.response(wire.ReadResponseLast, 80, 5))
	p.wantDone("the whole response has arrived", verbs.StatusSuccess, 1)
	for i := range byte(5) {
		require.Equal(t, i+byte(packets.PSNOf(ourBase, 80)), p.e.MR.Bytes()[80*scriptMTU+int(i)])
	}
}

func TestWireEmptyRead(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpRead, 0)
	p.post(2, verbs.OpSend, 0)
	p.wantRequest("an empty READ has a PSN", wire.ReadRequest, 0)
	p.wantRequest("the SEND has the next PSN", wire.SendOnly, 1)
	p.send(p.response(wire.ReadResponseOnly, 0, 0), p.ack(1))
	p.wantDone("both requests have completed", verbs.StatusSuccess, 1, 2)
}

func TestWireOutstandingReadsAndFence(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpRead, 1)
	p.post(2, verbs.OpFetchAdd, 8)
	p.post(3, verbs.OpCompareSwap, 8)
	p.post(4, verbs.OpSend, 1, verbs.SendFence)
	p.wantRequest("the first of two", wire.ReadRequest, 0)
	add := p.wantRequest("the second of two", wire.FetchAdd, 1)
	require.EqualValues(t, 3, binary.BigEndian.Uint64(add.AtomicETH()[12:]))
	p.wantQuiet("MaxRdAtomic requests are outstanding")
	p.send(p.response(wire.ReadResponseOnly, 0, 1))
	swap := p.wantRequest("one response has arrived", wire.CompareSwap, 2)
	require.Equal(t, []uint64{0x10000, 7, 4, 3}, []uint64{swap.AtomicETH().Addr(), uint64(swap.AtomicETH().RKey()), binary.BigEndian.Uint64(swap.AtomicETH()[12:]), swap.AtomicETH().Compare()})
	p.wantQuiet("the fence waits for all READs and atomics")
	p.send(p.response(wire.AtomicAcknowledge, 1, 0))
	p.wantQuiet("the fence waits for the last atomic")
	p.send(p.response(wire.AtomicAcknowledge, 2, 0))
	p.wantRequest("all responses have arrived", wire.SendOnly, 3)
	p.wantDone("all requests but the fenced one have completed", verbs.StatusSuccess, 1, 2, 3)
}

func TestWirePacketConnWithoutRoom(t *testing.T) {
	p := newScript(t)
	p.room = 2
	p.post(1, verbs.OpSend, 3*scriptMTU)
	p.wantRequest("there is room for the first packet", wire.SendFirst, 0)
	p.wantRequest("there is room for the second packet", wire.SendMiddle, 1)
	p.e.PollForTimers()
	p.wantQuiet("there is no room for the third packet")
	p.room = -1
	p.e.PollForTimers()
	p.wantRequest("there is room again", wire.SendLast, 2)
	p.e.Recv(1, 0, 10)
	p.room = 0
	p.send(withAckReq(p.request(wire.SendOnly, 0, 1)))
	p.wantQuiet("there is no room for the acknowledgement")
	p.room = -1
	p.e.PollForTimers()
	p.wantSyndrome("there is room again", wire.AckNoCredits, 0)
}

func TestWireMemoryClosedInTheMiddleOfAMessage(t *testing.T) {
	p := newScript(t)
	m, err := p.e.PD.Alloc(&verbs.AllocAttr{Size: 1 << 20, Access: verbs.AccessLocalWrite})
	require.NoError(t, err)
	p.post(1, verbs.OpSend, 1)
	p.e.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, SGEs: []verbs.SGE{verbs.SGEOf(m, 0, 200*scriptMTU)}})
	p.post(3, verbs.OpSend, 1)
	require.NoError(t, m.Close())
	p.out = nil
	require.Empty(t, p.e.DrainCQ())
	p.send(p.ack(40))
	var got []verbs.Status
	for _, wc := range p.e.DrainCQ() {
		got = append(got, wc.Status)
	}
	require.Equal(t, []verbs.Status{verbs.StatusSuccess, verbs.StatusLocProtErr, verbs.StatusWRFlushErr}, got)
	p.wantQuiet("no request after the failed one is sent")
}

// A queue pair in SQD repeats a lost packet, but begins no new request.
func TestWireDrainedQueueRepeats(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 2*scriptMTU)
	p.wantRequest("", wire.SendFirst, 0)
	p.wantRequest("", wire.SendLast, 1)
	require.NoError(t, p.e.QP.Modify(&verbs.QPAttr{State: verbs.StateSQD}, verbs.AttrState))
	p.post(2, verbs.OpSend, 1)
	p.send(p.nak(wire.NAKSequence, 1))
	p.wantRequest("the lost packet is sent again", wire.SendLast, 1)
	var ev verbs.AsyncEvent
	ok, err := p.dev.NextAsync(&ev)
	require.NoError(t, err)
	require.False(t, ok)
	p.send(p.ack(1))
	ok, err = p.dev.NextAsync(&ev)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, verbs.AsyncSQDrained, ev.Type)
	p.wantQuiet("the second request is not begun in SQD")
	require.NoError(t, p.e.QP.Modify(&verbs.QPAttr{State: verbs.StateRTS}, verbs.AttrState))
	p.wantRequest("the second request is begun in RTS", wire.SendOnly, 2)
}
