package wire_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestBuild(t *testing.T) {
	for _, e := range expectations {
		b := slices.Repeat([]byte{0xee}, 100)
		p := wire.Build(b, wire.Opcode(e.code), e.length())
		copy(p.Payload(), "payload")

		want := make([]byte, wire.BTHSize+e.extended())
		want[0] = e.code
		want[2], want[3] = 0xff, 0xff
		if e.length() > 0 {
			want[1] = 0x10
			want = append(want, "payload\x00"...)
		}
		want = append(want, 0, 0, 0, 0)
		require.Equal(t, want, p.Bytes(), e.name)
		require.Equal(t, byte(0xee), b[len(want)], "Build must not write behind the packet")
		require.Equal(t, wire.Opcode(e.code), p.Opcode())
	}
}

func TestBuildPanicsOnImpossiblePackets(t *testing.T) {
	b := make([]byte, 2*wire.MaxPacket)
	require.Panics(t, func() { wire.Build(b, 0x15, 0) })
	require.Panics(t, func() { wire.Build(b, wire.SendOnly, -1) })
	require.Panics(t, func() { wire.Build(b, wire.FetchAdd, 4) })
	require.Panics(t, func() { wire.Build(b, wire.SendOnly, wire.MaxPayload+1) })
	require.Panics(t, func() { wire.Build(b[:19], wire.SendOnly, 1) })
}

// TestHeaders checks that each header method returns its header, or nil if the opcode
// does not have it.
func TestHeaders(t *testing.T) {
	for _, e := range expectations {
		b := make([]byte, 100)
		for i := range b {
			b[i] = byte(i)
		}
		b[0], b[1] = e.code, 0x10
		if e.length() == 0 {
			b[1] = 0
		}
		p, err := wire.Decode(b[:wire.Opcode(e.code).Size(e.length())])
		require.NoError(t, err, e.name)
		for header, first := range firstBytes(p) {
			require.Equal(t, e.offset(header), first, "%s of %s", header, e.name)
		}
		require.Equal(t, b[wire.BTHSize+e.extended():][:e.length()], p.Payload(), e.name)
		require.Equal(t, b[0], p.BTH()[0])
	}
}

// firstBytes returns the first byte of each header of a packet, by the header's name. If
// the header is missing, it returns -1.
func firstBytes(p wire.Packet) map[string]int {
	all := map[string]int{"DETH": -1, "RETH": -1, "AtomicETH": -1, "AETH": -1, "AtomicAckETH": -1, "ImmDt": -1, "IETH": -1}
	if h := p.DETH(); h != nil {
		all["DETH"] = int(h[0])
	}
	if h := p.RETH(); h != nil {
		all["RETH"] = int(h[0])
	}
	if h := p.AtomicETH(); h != nil {
		all["AtomicETH"] = int(h[0])
	}
	if h := p.AETH(); h != nil {
		all["AETH"] = int(h[0])
	}
	if h := p.AtomicAckETH(); h != nil {
		all["AtomicAckETH"] = int(h[0])
	}
	if h := p.ImmDt(); h != nil {
		all["ImmDt"] = int(h[0])
	}
	if h := p.IETH(); h != nil {
		all["IETH"] = int(h[0])
	}
	return all
}

func TestDecodeVectors(t *testing.T) {
	for name, payload := range map[string]string{vectorSend: "abcdef", vectorWriteImm: "hello", vectorReadRequest: "", vectorAck: "", vectorCNP: ""} {
		p := captured(t, name).decoded(t)
		require.Equal(t, payload, string(p.Payload()), name)
	}
	require.Equal(t, wire.CNP, captured(t, vectorCNP).decoded(t).Opcode())
}

// TestBuildVectors builds some captured packets from their fields.
func TestBuildVectors(t *testing.T) {
	for name, build := range map[string]func([]byte) wire.Packet{
		vectorSend: func(b []byte) wire.Packet {
			p := wire.Build(b, wire.SendOnly, 6)
			p.BTH().SetSolicited(true)
			p.BTH().SetAckReq(true)
			p.BTH().SetDestQP(0x123)
			p.BTH().SetPSN(0xabcdef)
			copy(p.Payload(), "abcdef")
			return p
		},
		vectorWriteImm: func(b []byte) wire.Packet {
			p := wire.Build(b, wire.WriteOnlyImm, 5)
			p.BTH().SetAckReq(true)
			p.BTH().SetDestQP(0x123)
			p.BTH().SetPSN(0xabcdf0)
			p.RETH().Set(0x7f0011223344, 0x1234, 5)
			p.ImmDt().Set(0xdeadbeef)
			copy(p.Payload(), "hello")
			return p
		},
		vectorReadRequest: func(b []byte) wire.Packet {
			p := wire.Build(b, wire.ReadRequest, 0)
			p.BTH().SetAckReq(true)
			p.BTH().SetDestQP(0x123)
			p.BTH().SetPSN(0x10)
			p.RETH().Set(0x7f0011220000, 0x1234, 3000)
			return p
		},
		vectorRNRNAK: func(b []byte) wire.Packet {
			p := wire.Build(b, wire.Acknowledge, 0)
			p.BTH().SetDestQP(0x456)
			p.BTH().SetPSN(0xabcdef)
			p.AETH().Set(wire.RNRNAK(12), 1)
			return p
		},
		vectorAck6: func(b []byte) wire.Packet {
			p := wire.Build(b, wire.Acknowledge, 0)
			p.BTH().SetDestQP(0x456)
			p.BTH().SetPSN(0xabcdef)
			p.AETH().Set(wire.AckNoCredits, 1)
			return p
		},
	} {
		c := captured(t, name)
		p := build(make([]byte, wire.MaxPacket))
		c.flow().Seal(p, c.id)
		require.Equal(t, c.packet, p.Bytes(), name)
	}
}

func TestDecodeRejects(t *testing.T) {
	// The parameter edit has pairs of an offset and a new byte.
	send := func(n int, edit ...byte) []byte {
		b := wire.Build(make([]byte, wire.MaxPacket+8), wire.SendOnly, n).Bytes()
		for i := 0; i < len(edit); i += 2 {
			b[edit[i]] = edit[i+1]
		}
		return b
	}
	whole := func(n int, op wire.Opcode) []byte { return append([]byte{byte(op)}, make([]byte, n-1)...) }
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"nothing", nil, wire.ErrLength},
		{"less than BTH and ICRC", send(0)[:12], wire.ErrLength},
		{"not a multiple of four", send(4)[:19], wire.ErrLength},
		{"pad of three bytes that are not there", send(0, 1, 0x30), wire.ErrLength},
		{"version 1", send(0, 1, 0x01), wire.ErrVersion},
		{"reserved opcode", send(0, 0, 0x15), wire.ErrOpcode},
		{"UC SEND_ONLY", send(0, 0, 0x24), wire.ErrOpcode},
		{"RETH cut off", whole(12+12+4, wire.ReadRequest), wire.ErrLength},
		{"READ request with a payload", whole(12+16+4+4, wire.ReadRequest), wire.ErrLength},
		{"ACK with a payload", whole(12+4+4+4, wire.Acknowledge), wire.ErrLength},
		{"atomic cut off", whole(12+24+4, wire.FetchAdd), wire.ErrLength},
		{"CNP cut off", whole(12+12+4, wire.CNP), wire.ErrLength},
		{"more than the largest MTU", whole(12+4100+4, wire.SendOnly), wire.ErrLength},
	} {
		p, err := wire.Decode(c.b)
		require.ErrorIs(t, err, c.want, c.name)
		require.Zero(t, p, c.name)
	}
	_, err := wire.Decode(send(wire.MaxPayload))
	require.NoError(t, err)
	_, err = wire.Decode(send(4, 1, 0x30)) // The payload has one byte.
	require.NoError(t, err)
}
