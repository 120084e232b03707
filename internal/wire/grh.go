package wire

import (
	"encoding/binary"
	"net/netip"
)

// GRHSize is the length of a GRH in bytes.
const GRHSize = 40

// A GRH is the IP header that precedes the payload of a received UD datagram. It is an
// IPv6 header, or 20 zero bytes and an IPv4 header. Source: IBTA vol. 1, 11.4.1.2; annex
// A17.4.5.2.
type GRH [GRHSize]byte

// Set writes the IP header of a received packet. Addresses may be IPv4-mapped. The
// identification and the flow label become 0.
//
// Parameters:
//
//   - packet: the length in bytes from the BTH to the ICRC
//   - tos: the type of service or the traffic class
//   - ttl: the time to live or the hop limit
func (h *GRH) Set(src, dst netip.Addr, packet int, tos, ttl uint8) {
	*h = GRH{}
	from, to := src.Unmap(), dst.Unmap()
	if from.Is4() && to.Is4() {
		setIP4((*[ip4Size]byte)(h[GRHSize-ip4Size:]), from.As4(), to.As4(), packet, tos, ttl)
		return
	}
	h[0], h[1] = 0x60|tos>>4, tos<<4
	binary.BigEndian.PutUint16(h[4:], uint16(udpSize+packet))
	h[6], h[7] = protoUDP, ttl
	*(*[16]byte)(h[8:]), *(*[16]byte)(h[24:]) = from.As16(), to.As16()
}

// setIP4 writes an IPv4 header to h, which must be all zero.
func setIP4(h *[ip4Size]byte, src, dst [4]byte, packet int, tos, ttl uint8) {
	h[0], h[1] = 0x45, tos
	binary.BigEndian.PutUint16(h[2:], uint16(ip4Size+udpSize+packet))
	h[6] = 0x40 // do not fragment (A17.3.1.1.5)
	h[8], h[9] = ttl, protoUDP
	*(*[4]byte)(h[12:]), *(*[4]byte)(h[16:]) = src, dst
	binary.BigEndian.PutUint16(h[10:], checksum(h))
}

// checksum returns the Internet checksum of a header (RFC 1071). The checksum field of
// the header must be zero.
func checksum(h *[ip4Size]byte) uint16 {
	var sum uint32
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
