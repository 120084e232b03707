//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// FuzzWirePeer acts as a peer that sends arbitrary packets. Each four bytes of input are
// one step; see fuzzStep.
func FuzzWirePeer(f *testing.F) {
	f.Add([]byte{byte(wire.SendOnly), 128, 4, 0, byte(wire.SendOnly), 129, 4, 1})
	f.Add([]byte{byte(wire.ReadRequest), 128, 200, 0, byte(wire.ReadRequest), 129, 100, 0, 0xfe, 0, 0, 0})
	f.Add([]byte{0xf0, 4, 3, 0, byte(wire.Acknowledge), 130, 0x60, 0, byte(wire.ReadResponseFirst), 128, 255, 0, 0xfd, 0, 0, 0})
	f.Add([]byte{0xf0, 6, 8, 0, 0xf0, 2, 200, 0, byte(wire.AtomicAcknowledge), 128, 0, 0, byte(wire.Acknowledge), 129, 0x21, 0, 0xfd, 9, 9, 9})
	f.Add([]byte{byte(wire.WriteFirst), 128, 255, 0, byte(wire.WriteLastImm), 129, 16, 0, byte(wire.FetchAdd), 130, 0, 0, byte(wire.FetchAdd), 130, 0, 0})
	f.Fuzz(func(t *testing.T, steps []byte) {
		p := newScript(t)
		for id := range uint64(4) {
			p.e.Recv(id, int(id)*1024, 1024)
		}
		posted, completed := 4, 0
		for ; len(steps) >= 4; steps = steps[4:] {
			posted += p.fuzzStep(steps[0], steps[1], steps[2], steps[3])
			completed += len(p.e.DrainCQ())
			p.checkInvariants()
			p.out = nil
		}
		require.NoError(t, p.e.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
		require.Equal(t, posted, completed+len(p.e.DrainCQ()), "every request completes once")
	})
}

// fuzzStep delivers a packet, posts a request, advances the clock, or sends waiting
// packets. It returns the number of posted requests.
func (p *script) fuzzStep(what, where, size, how byte) (posted int) {
	switch op := wire.Opcode(what); {
	case what >= 0xf0 && what < 0xfd:
		wr := verbs.SendWR{Opcode: verbs.Opcode(where % 7), Flags: verbs.SendSignaled, RKey: p.e.MR.RKey(), RemoteAddr: p.e.MR.Addr(),
			SGEs: []verbs.SGE{verbs.SGEOf(p.e.MR, 4096, int(size)*16)}}
		if wr.Opcode.Atomic() {
			wr.SGEs[0].Length = 8
		}
		posted, _ = p.e.QP.PostSend([]verbs.SendWR{wr})
	case what == 0xfd:
		p.advance(scriptTimeout)
	case what > 0xfd:
		p.e.QP.Shard.Demux.SendDue()
	case op.Kind() != wire.KindUnknown:
		p.deliver(p.fuzzPacket(op, where, size, how))
	}
	return posted
}

func (p *script) fuzzPacket(op wire.Opcode, where, size, how byte) wire.Packet {
	payload := int(size)
	if !op.FitsPayload(payload, wire.MaxPayload) {
		payload = scriptMTU
		if op.FitsPayload(0, scriptMTU) {
			payload = 0
		}
	}
	near := packets.PSNOf(theirBase, p.conn.resp.expected)
	if op.Response() {
		near = packets.PSNOf(ourBase, p.conn.req.ackedEnd)
	}
	pkt := p.packet(op, near.Add(int(where)-128), payload)
	pkt.BTH().SetAckReq(how&1 == 0)
	if h := pkt.RETH(); h != nil {
		p.setRETH(pkt, int(how>>3)*256, uint32(size)*16)
	}
	if h := pkt.AtomicETH(); h != nil {
		h.Set(p.e.MR.Addr()+uint64(how), p.e.MR.RKey(), 1, 0)
	}
	if h := pkt.AETH(); h != nil {
		h.Set(wire.Syndrome(size), 0)
	}
	return pkt
}

// checkInvariants checks relations between counters that hold for any packets of the
// peer.
func (p *script) checkInvariants() {
	l := p.conn
	if p.e.QP.State() != verbs.StateError {
		require.LessOrEqual(p.t, l.req.ackedEnd, l.req.seq)
		require.LessOrEqual(p.t, l.req.seq, l.req.sentEnd)
		require.LessOrEqual(p.t, l.req.sentEnd, l.req.ackedEnd+maxConnWindow)
		require.LessOrEqual(p.t, l.resp.dataEnd, l.resp.expected)
		require.GreaterOrEqual(p.t, l.req.readsInFlight, 0)
	}
	require.LessOrEqual(p.t, len(p.out), 2*maxConnWindow+respondBudget)
}
