package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// FuzzDecode decodes arbitrary bytes and builds a packet from the result. The packet must
// equal the bytes, except for the pad and the ICRC.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors {
		f.Add(captured(f, v.name).packet)
	}
	for _, e := range expectations {
		f.Add(wire.Build(make([]byte, wire.MaxPacket), wire.Opcode(e.code), e.length()).Bytes())
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := wire.Decode(b)
		if err != nil {
			require.Zero(t, p)
			return
		}
		require.Equal(t, b, p.Bytes())
		q := wire.Build(make([]byte, wire.MaxPacket), p.Opcode(), len(p.Payload()))
		require.Equal(t, p.BTH().PadCount(), q.BTH().PadCount())
		copyFields(q, p)
		behind := p.BTH().PadCount() + wire.ICRCSize
		require.Equal(t, b[:len(b)-behind], q.Bytes()[:len(b)-behind])
		require.Len(t, q.Bytes(), len(b))
	})
}

func copyFields(dst, src wire.Packet) {
	*dst.BTH() = *src.BTH()
	copy(dst.Payload(), src.Payload())
	if h := src.DETH(); h != nil {
		*dst.DETH() = *h
	}
	if h := src.RETH(); h != nil {
		*dst.RETH() = *h
	}
	if h := src.AtomicETH(); h != nil {
		*dst.AtomicETH() = *h
	}
	if h := src.AETH(); h != nil {
		*dst.AETH() = *h
	}
	if h := src.AtomicAckETH(); h != nil {
		*dst.AtomicAckETH() = *h
	}
	if h := src.ImmDt(); h != nil {
		*dst.ImmDt() = *h
	}
	if h := src.IETH(); h != nil {
		*dst.IETH() = *h
	}
	if src.Opcode() == wire.CNP {
		copy(dst.Bytes()[wire.BTHSize:], src.Bytes()[wire.BTHSize:])
	}
}

// FuzzVerify seals an arbitrary packet with an arbitrary identification. Verify must find
// this identification.
func FuzzVerify(f *testing.F) {
	for _, v := range vectors {
		c := captured(f, v.name)
		f.Add(c.packet, c.id, c.src.Addr().AsSlice(), c.dst.Addr().AsSlice(), c.src.Port())
	}
	f.Fuzz(func(t *testing.T, b []byte, id uint16, src, dst []byte, port uint16) {
		p, err := wire.Decode(b)
		if err != nil {
			return
		}
		c := capture{src: endpoint(src, port), dst: endpoint(dst, wire.UDPPort)}
		if c.src.Addr().Is4() != c.dst.Addr().Is4() {
			return
		}
		flow := c.flow()
		flow.Verify(p) // Verify must not panic.
		flow.Seal(p, id)
		found, ok := flow.Verify(p)
		require.True(t, ok)
		if c.src.Addr().Is4() {
			require.Equal(t, id, found)
		}
	})
}

// FuzzMessages decodes arbitrary data as a message and encodes it again. Everything
// except the reserved bits must stay the same.
func FuzzMessages(f *testing.F) {
	f.Add(captured(f, vectorREQ).decoded(f).Payload())
	for attr := range newMessage {
		seed := append(cmSeed(attr), pattern(wire.MADDataSize)...)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := wire.DecodeMAD(b)
		if err != nil || newMessage[m.Attribute()] == nil {
			return
		}
		fields := fieldsOf(m.Attribute())
		msg, again := newMessage[m.Attribute()](), newMessage[m.Attribute()]()
		msg.Decode(m)
		var out wire.MAD
		msg.Encode(&out, m.TID())
		for i := wire.MADDataOffset; i < wire.MADSize; i++ {
			require.Equal(t, m[i]&fields[i], out[i], "byte %d of attribute %#x", i, m.Attribute())
		}
		again.Decode(&out)
		require.Equal(t, msg, again)
	})
}

// FuzzCMAHeader encodes a decoded header and decodes it again. Both headers must be
// equal.
func FuzzCMAHeader(f *testing.F) {
	request := vectorRequest()
	f.Add(request.PrivateData[:])
	f.Add(append([]byte{0, 0x60}, pattern(34)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < wire.CMAHeaderSize {
			return
		}
		var h, again wire.CMAHeader
		if _, err := h.Decode(b); err != nil {
			return
		}
		out := make([]byte, wire.CMAHeaderSize)
		h.Encode(out)
		_, err := again.Decode(out)
		require.NoError(t, err)
		require.Equal(t, h, again)
	})
}
