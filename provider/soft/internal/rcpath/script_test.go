//go:build linux

package rcpath

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A script takes the place of a shard's packets.Conn. The test makes the packets of the
// peer, and checks the packets of the queue pair. Sequences count from 0.
type script struct {
	t        testing.TB
	dev      *qptest.Device
	e        *qptest.End
	conn     *Conn
	now      time.Duration
	out      []wire.Packet // packets of the queue pair that the test has not checked
	timeouts int           // number of calls of OnTimeout
	room     int           // number of packets that may still be sent; negative: no limit
	freed    int           // value to which Flush sets room; 0: Flush leaves room as it is
}

const (
	scriptQPN  = 0x123456
	scriptMTU  = 256
	ourBase    = psn.Value(0xfffffe) // first PSN of the requests of the queue pair
	theirBase  = psn.Value(0xffffff) // first PSN of the script's requests
	scriptHops = 64
)

var (
	scriptAddr = netip.MustParseAddr("fd00::99")
	ownAddr    = netip.MustParseAddr("fd00::1")
)

// scriptAttr sets the attributes of the queue pair's connection. Tests may change them
// later.
func scriptAttr(attr *verbs.QPAttr) {
	attr.AH.DestGID, attr.DestQPN = verbs.GIDFromAddr(scriptAddr), scriptQPN
	attr.PathMTU, attr.RQPSN, attr.SQPSN = verbs.MTU256, uint32(theirBase), uint32(ourBase)
	attr.MaxRdAtomic, attr.MaxDestRdAtomic = 2, 2
	attr.Timeout, attr.RetryCount, attr.RNRRetry, attr.MinRNRTimer = 14, 3, 2, 12
}

func newScript(t testing.TB, change ...func(*verbs.QPAttr)) *script {
	d := newPacketDevice(t, 1)
	p := &script{t: t, dev: d, room: -1}
	sh, err := d.Shard(0, verbs.ProgressManual)
	require.NoError(t, err)
	sh.Demux.Conn = p
	sh.Clock = func() time.Duration { return p.now }
	p.e = qptest.NewEnd(t, d, 0, verbs.ProgressManual)
	p.e.Connect(p.e, func(attr *verbs.QPAttr) {
		scriptAttr(attr)
		for _, f := range change {
			f(attr)
		}
	})
	p.conn = connOf(p.e.QP)
	// Congestion control is off in these tests: the window is large, and losses do not
	// reduce it.
	p.conn.cong.shared.window, p.conn.cong.recoveryEnd = maxWindow, math.MaxUint64
	return p
}

func (p *script) Open(*udp.Route) error { return nil }
func (p *script) Close(*udp.Route)      {}
func (p *script) OnTimeout(*udp.Route)  { p.timeouts++ }

func (p *script) Flush() {
	if p.freed > 0 {
		p.room = p.freed
	}
}

func (p *script) Buffer(_ *udp.Route, size int) []byte {
	if p.room == 0 {
		return nil
	}
	return make([]byte, size)
}

func (p *script) Push(_ *udp.Route, pkt wire.Packet) {
	p.room--
	decoded, err := wire.Decode(pkt.Bytes())
	require.NoError(p.t, err, "the queue pair has sent an invalid packet")
	require.EqualValues(p.t, scriptQPN, decoded.BTH().DestQP())
	p.out = append(p.out, decoded)
}

// packet makes a packet for the queue pair, with a payload of the given length.
func (p *script) packet(op wire.Opcode, number psn.Value, payload int) wire.Packet {
	pkt := wire.Build(make([]byte, op.Size(payload)), op, payload)
	pkt.BTH().SetDestQP(p.e.QP.Num())
	pkt.BTH().SetPSN(number)
	for i := range pkt.Payload() {
		pkt.Payload()[i] = byte(i + int(number))
	}
	return pkt
}

// deliver passes packets to the shard of the queue pair, as if one system call had read
// them, and the next poll had found no packets.
func (p *script) deliver(pkts ...wire.Packet) {
	p.arrive(pkts...)
	p.e.QP.Shard.Demux.Polls += 2
}

// arrive passes packets to the shard of the queue pair, as if a poll had found them.
func (p *script) arrive(pkts ...wire.Packet) {
	for _, pkt := range pkts {
		p.e.QP.Shard.Demux.Receive(pkt, &udp.Header{From: scriptAddr, To: ownAddr, HopLimit: scriptHops})
	}
}

// send delivers packets, and lets the queue pair send its own.
func (p *script) send(pkts ...wire.Packet) {
	p.deliver(pkts...)
	p.e.QP.Shard.Demux.SendDue()
}

// request makes a request packet of the script with the sequence seq.
func (p *script) request(op wire.Opcode, seq uint64, payload int) wire.Packet {
	return p.packet(op, packets.PSNOf(theirBase, seq), payload)
}

func withAckReq(pkt wire.Packet) wire.Packet {
	pkt.BTH().SetAckReq(true)
	return pkt
}

// setRETH sets a packet's RETH. The offset counts from the start of the queue pair's
// memory region.
func (p *script) setRETH(pkt wire.Packet, offset int, length uint32) wire.Packet {
	pkt.RETH().Set(p.e.MR.Addr()+uint64(offset), p.e.MR.RKey(), length)
	return pkt
}

func (p *script) read(seq uint64, offset int, length uint32) wire.Packet {
	return p.setRETH(p.request(wire.ReadRequest, seq, 0), offset, length)
}

// response makes a response to the request packet with the sequence seq.
func (p *script) response(op wire.Opcode, seq uint64, payload int) wire.Packet {
	pkt := p.packet(op, packets.PSNOf(ourBase, seq), payload)
	if h := pkt.AETH(); h != nil {
		h.Set(wire.AckNoCredits, 0)
	}
	return pkt
}

// syndrome makes an ACK or NAK for the request packet with the sequence seq.
func (p *script) syndrome(s wire.Syndrome, seq uint64) wire.Packet {
	pkt := p.response(wire.Acknowledge, seq, 0)
	pkt.AETH().Set(s, 0)
	return pkt
}

func (p *script) ack(seq uint64) wire.Packet { return p.syndrome(wire.AckNoCredits, seq) }

func (p *script) nak(code wire.NAKCode, seq uint64) wire.Packet {
	return p.syndrome(wire.NAK(code), seq)
}

// next removes the oldest packet from out. The packet must have the given opcode and PSN.
func (p *script) next(why string, op wire.Opcode, number psn.Value) wire.Packet {
	p.t.Helper()
	require.NotEmpty(p.t, p.out, "%s: nothing was sent", why)
	pkt := p.out[0]
	p.out = p.out[1:]
	require.Equal(p.t, op, pkt.Opcode(), why)
	require.Equal(p.t, number, pkt.BTH().PSN(), why)
	return pkt
}

// wantRequest removes the oldest packet from out. The packet must be a request with the
// given opcode and sequence.
func (p *script) wantRequest(why string, op wire.Opcode, seq uint64) wire.Packet {
	p.t.Helper()
	return p.next(why, op, packets.PSNOf(ourBase, seq))
}

// wantResponse removes the oldest packet from out. The packet must be a response with
// the given opcode and sequence.
func (p *script) wantResponse(why string, op wire.Opcode, seq uint64) wire.Packet {
	p.t.Helper()
	return p.next(why, op, packets.PSNOf(theirBase, seq))
}

// wantSyndrome removes the oldest packet from out. The packet must be an ACK or NAK with
// the given syndrome and sequence.
func (p *script) wantSyndrome(why string, s wire.Syndrome, seq uint64) {
	p.t.Helper()
	require.Equal(p.t, s, p.wantResponse(why, wire.Acknowledge, seq).AETH().Syndrome(), why)
}

// wantQuiet requires that out has no packet.
func (p *script) wantQuiet(why string) {
	p.t.Helper()
	require.Zero(p.t, len(p.out), why)
}

// wantCount requires that out has n packets.
func (p *script) wantCount(n int) {
	p.t.Helper()
	require.Equal(p.t, n, len(p.out)) // On failure, require.Len would print every packet.
}

// advance advances the clock, fires expired timers, and lets the queue pair send.
func (p *script) advance(d time.Duration) {
	p.now += d
	p.e.QP.Shard.FireTimers()
	p.e.QP.Shard.Demux.SendDue()
}

// post posts a request for n bytes at the beginning of the memory region.
func (p *script) post(id uint64, op verbs.Opcode, n int, flags ...verbs.SendFlags) {
	wr := verbs.SendWR{ID: id, Opcode: op, Flags: verbs.SendSignaled, Imm: 99,
		SGEs: []verbs.SGE{verbs.SGEOf(p.e.MR, 0, n)}, RemoteAddr: 0x10000, RKey: 7, CompareAdd: 3, Swap: 4}
	for _, f := range flags {
		wr.Flags |= f
	}
	p.e.Post(wr)
}

// wantDone requires that exactly these requests have completed, in this order. If the
// first one has failed, the others must be flushed.
func (p *script) wantDone(why string, status verbs.Status, ids ...uint64) {
	p.t.Helper()
	got := p.e.DrainCQ()
	require.Len(p.t, got, len(ids), why)
	for i, id := range ids {
		require.Equal(p.t, id, got[i].ID, why)
		want := status
		if i > 0 && status != verbs.StatusSuccess {
			want = verbs.StatusWRFlushErr
		}
		require.Equal(p.t, want, got[i].Status, why)
	}
}
