package capture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
)

const testMTU = 256

// An rcTest has one end of a connection, whose requests begin with PSN 100, and those of the
// peer with PSN 200.
type rcTest struct {
	*RC
	t    *testing.T
	c    *Capture
	file *memoryFile
}

func newRCTest(t *testing.T) *rcTest {
	var e events
	f := newMemoryFile(1 << 30)
	c := begin(t, f, e.config(1<<16, 1<<20))
	ends := &Ends{Local: netip.MustParseAddr("127.0.0.1"), Remote: netip.MustParseAddr("127.0.0.2"), OwnQP: 0x11, PeerQP: 0x22}
	rc := c.NewTap().NewRC(ends, testMTU, 200)
	rc.SendFrom(100)
	return &rcTest{RC: rc, t: t, c: c, file: f}
}

// require ends the capture, and requires its packets: one line for each.
func (r *rcTest) require(want ...string) {
	r.t.Helper()
	r.c.Close()
	var got []string
	for _, p := range r.file.read(r.t).Packets {
		require.Equal(r.t, "local", p.Interface)
		require.NoError(r.t, p.CheckRoCE(4791))
		packet, err := wire.Decode(p.Data[28:])
		require.NoError(r.t, err)
		src, dest, line := "127.0.0.2", uint32(0x11), "<"
		if p.Outbound {
			src, dest, line = "127.0.0.1", 0x22, ">"
		}
		require.Equal(r.t, src, netip.AddrFrom4([4]byte(p.Data[12:16])).String())
		require.Equal(r.t, dest, packet.BTH().DestQP())
		got = append(got, line+describe(packet))
	}
	require.Equal(r.t, want, got)
}

// describe returns what a test requires of a packet.
func describe(p wire.Packet) string {
	line := fmt.Sprintf(" %d %v", p.BTH().PSN(), p.Opcode())
	if n := len(p.Payload()); n > 0 {
		line += fmt.Sprintf(" %d", n)
	}
	for flag, set := range map[string]bool{" A": p.BTH().AckReq(), " S": p.BTH().Solicited()} {
		if set {
			line += flag
		}
	}
	if h := p.RETH(); h != nil {
		line += fmt.Sprintf(" at %#x/%#x+%d", h.Addr(), h.RKey(), h.Length())
	}
	if h := p.AtomicETH(); h != nil {
		line += fmt.Sprintf(" at %#x/%#x: %d %d", h.Addr(), h.RKey(), binary.BigEndian.Uint64(h[12:]), h.Compare())
	}
	if h := p.ImmDt(); h != nil {
		line += fmt.Sprintf(" imm %d", h.Value())
	}
	if h := p.IETH(); h != nil {
		line += fmt.Sprintf(" inv %d", h.RKey())
	}
	if h := p.AETH(); h != nil {
		line += fmt.Sprintf(" %v msn %d", h.Syndrome(), h.MSN())
	}
	if h := p.AtomicAckETH(); h != nil {
		line += fmt.Sprintf(" old %d", h.Original())
	}
	return line
}

// fragments returns the fragments of a message of n bytes, each with at most the given number
// of bytes.
func fragments(f fragment.Fragment, n, each int) (all []*fragment.Fragment) {
	payload := bytes.Repeat([]byte{7}, n)
	for first := true; first || len(payload) > 0; first = false {
		g := f
		size := min(each, len(payload))
		g.Payload, payload = payload[:size], payload[size:]
		if first {
			g.Flags |= fragment.First
		}
		if len(payload) == 0 {
			g.Flags |= fragment.Last
		} else {
			g.Flags &^= fragment.Imm | fragment.Solicited
		}
		all = append(all, &g)
	}
	return all
}

func operands(a, b uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, a), b)
}

// The packets of a message do not depend on how it was cut into fragments.
func TestRequests(t *testing.T) {
	for _, each := range []int{1, 100, 256, 300, 1 << 20} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			r, seq := newRCTest(t), uint64(0)
			send := func(f fragment.Fragment, n int, ack bool) {
				for _, g := range fragments(f, n, each) {
					r.Sent(g, ack && g.Last(), seq, 0)
					seq++
				}
			}
			write := fragment.Fragment{Op: fragment.Write, Addr: 0x1000, Key: 0x99}
			send(fragment.Fragment{Op: fragment.Send}, 0, true)
			send(fragment.Fragment{Op: fragment.Send, Flags: fragment.Solicited}, 255, false)
			send(fragment.Fragment{Op: fragment.Send, Flags: fragment.Imm, Imm: 5}, 257, false)
			send(fragment.Fragment{Op: fragment.SendInv, Imm: 6}, 10, false)
			send(fragment.Fragment{Op: fragment.SendInv, Imm: 7}, 512, false)
			write.Total = 600
			send(write, 600, true)
			write.Total, write.Flags, write.Imm = 256, fragment.Imm, 8
			send(write, 256, false)
			r.require(
				"> 100 SEND_ONLY A",
				"> 101 SEND_ONLY 255 S",
				"> 102 SEND_FIRST 256", "> 103 SEND_LAST_IMM 1 imm 5",
				"> 104 SEND_ONLY_INV 10 inv 6",
				"> 105 SEND_FIRST 256", "> 106 SEND_LAST_INV 256 inv 7",
				"> 107 WRITE_FIRST 256 at 0x1000/0x99+600", "> 108 WRITE_MIDDLE 256", "> 109 WRITE_LAST 88 A",
				"> 110 WRITE_ONLY_IMM 256 at 0x1000/0x99+256 imm 8",
			)
		})
	}
}

// READs and atomics have a response. A READ takes a PSN for each packet of it.
func TestResponses(t *testing.T) {
	read := fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last, Addr: 0x1000, Key: 0x99, Total: 600}
	empty := fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last}
	add := fragment.Fragment{Op: fragment.FetchAdd, Flags: fragment.First | fragment.Last, Addr: 8, Key: 9, Payload: operands(3, 0)}
	swap := fragment.Fragment{Op: fragment.CompareSwap, Flags: fragment.First | fragment.Last, Addr: 8, Key: 9, Payload: operands(4, 5)}
	old := binary.NativeEndian.AppendUint64(nil, 77)
	want := []string{
		"> 100 READ_REQUEST at 0x1000/0x99+600", "> 103 FETCH_ADD at 0x8/0x9: 3 0", "> 104 COMPARE_SWAP at 0x8/0x9: 4 5", "> 105 READ_REQUEST at 0x0/0x0+0",
		"< 100 READ_RESPONSE_FIRST 256 ACK msn 1", "< 101 READ_RESPONSE_MIDDLE 256", "< 102 READ_RESPONSE_LAST 88 ACK msn 1",
		"< 103 ATOMIC_ACKNOWLEDGE ACK msn 2 old 77", "< 104 ATOMIC_ACKNOWLEDGE ACK msn 3 old 77", "< 105 READ_RESPONSE_ONLY ACK msn 4",
	}
	t.Run("requester", func(t *testing.T) {
		r := newRCTest(t)
		for i, f := range []*fragment.Fragment{&read, &add, &swap, &empty} {
			r.Sent(f, false, uint64(i), 0)
		}
		r.Acked(4)
		r.ResponseReceived(make([]byte, 500), false)
		r.ResponseReceived(make([]byte, 100), true)
		r.ResponseReceived(old, true)
		r.ResponseReceived(old, true)
		r.ResponseReceived(nil, true)
		r.ResponseReceived(nil, true) // nobody asked
		r.require(want...)
		require.Len(t, r.out.sent, 4)
		r.out.trim(4)
		require.Empty(t, r.out.sent)
	})
	t.Run("responder", func(t *testing.T) {
		r := newRCTest(t)
		r.in.next = 100
		for _, f := range []*fragment.Fragment{&read, &add, &swap, &empty} {
			r.Received(f, false)
		}
		r.ResponseSent(make([]byte, 1), false)
		r.ResponseSent(make([]byte, 599), true)
		r.ResponseSent(old, true)
		r.ResponseSent(old, true)
		r.ResponseSent(nil, true)
		require.Empty(t, r.in.sent)
		r.require(mirror(want)...)
	})
	t.Run("direct", func(t *testing.T) {
		r := newRCTest(t)
		r.Direct(&read, make([]byte, 600))
		r.Direct(&add, old)
		r.Direct(&fragment.Fragment{Op: fragment.Write, Flags: fragment.First | fragment.Last, Total: 300, Payload: make([]byte, 300)}, nil)
		r.require(want[0], want[4], want[5], want[6], want[1], want[7],
			"> 104 WRITE_FIRST 256 at 0x0/0x0+300", "> 105 WRITE_LAST 44 A", "< 105 ACKNOWLEDGE ACK msn 3")
	})
}

// mirror returns the packets as the other end sees them.
func mirror(lines []string) (mirrored []string) {
	for _, line := range lines {
		mirrored = append(mirrored, strings.NewReplacer("<", ">", ">", "<").Replace(line))
	}
	return mirrored
}

func send(n int) *fragment.Fragment {
	return &fragment.Fragment{Op: fragment.Send, Flags: fragment.First | fragment.Last, Payload: make([]byte, n)}
}

// An acknowledgement covers all requests before it, up to one whose response is missing.
func TestAcknowledgements(t *testing.T) {
	t.Run("requester", func(t *testing.T) {
		r := newRCTest(t)
		for i := range uint64(3) {
			r.Sent(send(300), i == 2, i, 0)
		}
		r.Acked(0)
		r.Acked(2)
		r.Acked(2)
		r.Acked(3)
		r.Sent(&fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last}, false, 3, 3)
		r.Sent(send(1), true, 4, 3)
		r.Acked(5)
		r.ResponseReceived(nil, true)
		r.Acked(5)
		require.Empty(t, r.out.sent)
		r.require(
			"> 100 SEND_FIRST 256", "> 101 SEND_LAST 44", "> 102 SEND_FIRST 256", "> 103 SEND_LAST 44", "> 104 SEND_FIRST 256", "> 105 SEND_LAST 44 A",
			"< 103 ACKNOWLEDGE ACK msn 2", "< 105 ACKNOWLEDGE ACK msn 3",
			"> 106 READ_REQUEST at 0x0/0x0+0", "> 107 SEND_ONLY 1 A",
			"< 106 READ_RESPONSE_ONLY ACK msn 4", "< 107 ACKNOWLEDGE ACK msn 5",
		)
	})
	t.Run("responder", func(t *testing.T) {
		r := newRCTest(t)
		r.Received(send(300), true)
		r.OweAck()
		r.Received(send(1), false)
		r.Ack()
		r.require("< 200 SEND_FIRST 256", "< 201 SEND_LAST 44 A", "< 202 SEND_ONLY 1", "> 201 ACKNOWLEDGE ACK msn 1")
	})
}

// After an RNR NAK the refused request and the later ones have the same PSNs again.
func TestRefusals(t *testing.T) {
	t.Run("requester", func(t *testing.T) {
		r := newRCTest(t)
		for i := range uint64(3) {
			r.Sent(send(300), false, i, 0)
		}
		first := send(300)
		first.Flags &^= fragment.Last
		r.Sent(first, false, 3, 0) // the rest finds no room
		r.Refused(1, wire.RNRNAK(5))
		r.Sent(send(1), false, 4, 0)
		r.Refused(4, wire.NAK(wire.NAKRemoteAccess))
		r.require(
			"> 100 SEND_FIRST 256", "> 101 SEND_LAST 44", "> 102 SEND_FIRST 256", "> 103 SEND_LAST 44", "> 104 SEND_FIRST 256", "> 105 SEND_LAST 44", "> 106 SEND_FIRST 256",
			"< 102 ACKNOWLEDGE RNR NAK, timer code 5 msn 1",
			"> 102 SEND_ONLY 1", "< 102 ACKNOWLEDGE NAK: remote access error msn 1",
		)
	})
	t.Run("responder", func(t *testing.T) {
		r := newRCTest(t)
		r.Received(send(1), false)
		r.Received(send(1), true)
		r.Refuse(wire.RNRNAK(5))
		r.Received(send(1), true)
		r.OweAck()
		r.Received(&fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last, Total: 600}, false)
		r.Refuse(wire.NAK(wire.NAKRemoteAccess))
		require.Empty(t, r.in.sent)
		r.Ack()
		r.require(
			"< 200 SEND_ONLY 1", "< 201 SEND_ONLY 1 A", "> 201 ACKNOWLEDGE RNR NAK, timer code 5 msn 1", "< 201 SEND_ONLY 1 A",
			"< 202 READ_REQUEST at 0x0/0x0+600", "> 202 ACKNOWLEDGE NAK: remote access error msn 2", "> 201 ACKNOWLEDGE ACK msn 2",
		)
	})
}

// Fragments that no correct peer sends do no harm.
func TestHostileFragments(t *testing.T) {
	r := newRCTest(t)
	for op := fragment.Op(0); op < 12; op++ {
		for flags := fragment.Flags(0); flags < 16; flags++ {
			for _, n := range []int{0, 1, 257} {
				r.Received(&fragment.Fragment{Op: op, Flags: flags, Total: 1<<32 - 1, Payload: make([]byte, n)}, true)
				r.ResponseReceived(make([]byte, n), n == 1)
				r.ResponseSent(make([]byte, n), n == 1)
			}
		}
		r.Refuse(wire.RNRNAK(0))
		r.Refused(99, wire.RNRNAK(0))
	}
	r.c.Close()
	for _, p := range r.file.read(t).Packets {
		require.NoError(t, p.CheckRoCE(4791))
	}
}
