package wire_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// vectorRequest is the REQ in the captured packet.
func vectorRequest() *wire.REQ {
	r := &wire.REQ{
		LocalID:            0x11223344,
		ServiceID:          wire.NewServiceID(0x0106, 7471),
		CAGUID:             0x0212345678abcdef,
		QPN:                0x123,
		ResponderResources: 4,
		InitiatorDepth:     5,
		RemoteTimeout:      20,
		FlowControl:        true,
		StartPSN:           0xabcdef,
		LocalTimeout:       20,
		RetryCount:         7,
		PKey:               wire.DefaultPKey,
		MTU:                3,
		RNRRetry:           6,
		MaxCMRetries:       15,
		SRQ:                true,
		Primary: wire.Path{
			LocalLID:     0xffff,
			RemoteLID:    0xffff,
			LocalGID:     wire.NewGID(netip.MustParseAddr("10.77.0.1")),
			RemoteGID:    wire.NewGID(netip.MustParseAddr("10.77.0.2")),
			FlowLabel:    0x12345,
			PacketRate:   2,
			TrafficClass: 0x68,
			HopLimit:     64,
			SL:           3,
			AckTimeout:   19,
		},
	}
	cma := wire.CMAHeader{SrcPort: 40000, Src: netip.MustParseAddr("10.77.0.1"), Dst: netip.MustParseAddr("10.77.0.2")}
	copy(cma.Encode(r.PrivateData[:]), "hello")
	return r
}

func TestDecodeVectorREQ(t *testing.T) {
	m, err := wire.DecodeMAD(captured(t, vectorREQ).decoded(t).Payload())
	require.NoError(t, err)
	var r wire.REQ
	r.Decode(m)
	require.Equal(t, vectorRequest(), &r)
}

func TestEncodeVectorREQ(t *testing.T) {
	c := captured(t, vectorREQ)
	p := wire.Build(make([]byte, wire.MaxPacket), wire.UDSendOnly, wire.MADSize)
	p.BTH().SetDestQP(wire.GSIQPN)
	p.DETH().Set(wire.GSIQKey, wire.GSIQPN)
	vectorRequest().Encode((*wire.MAD)(p.Payload()), 0xa11223344)
	c.flow().Seal(p, c.id)
	require.Equal(t, c.packet, p.Bytes())
}

// TestREQLayout checks the fields that are zero in the captured packet.
func TestREQLayout(t *testing.T) {
	r := &wire.REQ{
		LocalID:   0xa1a2a3a4,
		ServiceID: 0x0102030405060708,
		QKey:      0xb1b2b3b4,
		QPN:       0xc1c2c3,
		Transport: 3,
		StartPSN:  0xd1d2d3,
		Primary: wire.Path{
			LocalLID:    0x1112,
			RemoteLID:   0x2122,
			LocalGID:    wire.GID{0: 0xe1, 15: 0xe2},
			RemoteGID:   wire.GID{0: 0xf1, 15: 0xf2},
			PacketRate:  63,
			HopLimit:    1,
			SubnetLocal: true,
		},
	}
	copy(r.PrivateData[:], pattern(92))
	requireLayout(t, wire.AttrREQ, r, map[int]string{
		0:   "a1a2a3a4",
		8:   "0102030405060708",
		28:  "b1b2b3b4",
		32:  "c1c2c3",
		43:  "06",
		44:  "d1d2d3",
		52:  "1112 2122",
		56:  "e10000000000000000000000000000e2",
		72:  "f10000000000000000000000000000f2",
		91:  "3f",
		93:  "01 08",
		140: hexOf(pattern(92)),
	})
}
