package wire_test

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A vector is a packet in hex, with IP and UDP headers.
type vector struct{ name, text string }

// Vectors that several tests use.
const (
	vectorCNP         = "CNP, captured on a ConnectX-4 Lx"
	vectorSend        = "SEND_ONLY"
	vectorWriteImm    = "WRITE_ONLY_IMM"
	vectorReadRequest = "READ_REQUEST"
	vectorAck         = "ACK"
	vectorRNRNAK      = "RNR NAK"
	vectorAck6        = "ACK over IPv6"
	vectorREQ         = "REQ"
)

var vectors = []vector{
	{vectorCNP, `45c2003c718c4000401191610a0011010a001201 000012b700280000 8100ffff4000011800000000
		00000000000000000000000000000000 82fd002a`},
	{vectorSend, `4500003400074000401126160a4d00010a4d0002 c12312b700200000 04a0ffff0000012380abcdef
		616263646566 0000 27e590a3`},
	{vectorWriteImm, `4500004800004000401126090a4d00010a4d0002 c12312b700340000 0b30ffff0000012380abcdf0
		00007f00112233440000123400000005 deadbeef 68656c6c6f 000000 036b3880`},
	{vectorReadRequest, `4500003c00014000401126140a4d00010a4d0002 c12312b700280000 0c00ffff0000012380000010
		00007f00112200000000123400000bb8 95ebb04f`},
	{vectorAck, `4500003000004000401126210a4d00020a4d0001 d87212b7001c0000 1100ffff0000045600abcdef
		1f000001 26fee335`},
	{vectorRNRNAK, `4500003000004000401126210a4d00020a4d0001 d87212b7001c0000 1100ffff0000045600abcdef
		2c000001 69a97dd7`},
	{vectorAck6, `60000000001c1140fd000000000000000000000000000001fd000000000000000000000000000002
		d87212b7001c0000 1100ffff0000045600abcdef 1f000001 6adede20`},
	{vectorREQ, `45000134000040004011251d0a4d00010a4d0002 c12312b701200000 6400ffff0000000100000000
		8001000000000001
		0107020300000000 0000000a11223344 0010000000000000
		11223344 00000000 0000000001061d2f
		0212345678abcdef00000000000000000001230400000005000000a1abcdefa7ffff36f8ffffffff
		00000000000000000000ffff0a4d000100000000000000000000ffff0a4d00021234500268403098
		00000000000000000000000000000000000000000000000000000000000000000000000000000000
		00000000
		00409c400000000000000000000000000a4d00010000000000000000000000000a4d0002
		68656c6c6f000000` + strings.Repeat("00", 48) + `8bd15423`},
}

// A capture is a parsed vector: its addresses and its packet.
type capture struct {
	src, dst netip.AddrPort
	id       uint16
	packet   []byte
}

// captured parses a vector. It uses little of the package under test, because an error
// there could spoil the expected values.
func captured(t testing.TB, name string) capture {
	for _, v := range vectors {
		if v.name == name {
			return parse(unhex(t, v.text))
		}
	}
	require.Fail(t, "no such vector", name)
	return capture{}
}

func parse(b []byte) (c capture) {
	var src, dst netip.Addr
	udp := b[40:]
	if b[0]>>4 == 4 {
		udp = b[20:]
		c.id = binary.BigEndian.Uint16(b[4:])
		src, dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	} else {
		src, dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	}
	c.src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(udp[0:]))
	c.dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(udp[2:]))
	c.packet = udp[8:]
	return c
}

func (c capture) flow() *wire.Flow {
	var f wire.Flow
	f.Set(c.src, c.dst)
	return &f
}

func (c capture) decoded(t testing.TB) wire.Packet {
	p, err := wire.Decode(c.packet)
	require.NoError(t, err)
	return p
}

func unhex(t testing.TB, text string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	require.NoError(t, err)
	return b
}

// endpoint makes an address from arbitrary bytes. Four bytes are IPv4. Otherwise the
// first sixteen are IPv6.
func endpoint(b []byte, port uint16) netip.AddrPort {
	if a, ok := netip.AddrFromSlice(b); ok {
		return netip.AddrPortFrom(a.Unmap(), port)
	}
	var a [16]byte
	copy(a[:], b)
	return netip.AddrPortFrom(netip.AddrFrom16(a).Unmap(), port)
}
