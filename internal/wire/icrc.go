package wire

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// An ICRC is the invariant CRC of a packet. It covers everything that the network does
// not change. Source: IBTA vol. 1, 7.8.1; annex A17.3.3.
type ICRC uint32

// icrcSeed is the CRC of eight bytes of ones. They stand for the local route header,
// which RoCEv2 does not have.
const icrcSeed ICRC = 0x2144df1c

func (c ICRC) add(b []byte) ICRC { return ICRC(crcUpdate(uint32(c), b)) }

// ICRC returns the ICRC that the packet contains.
func (p Packet) ICRC() ICRC { return ICRC(binary.LittleEndian.Uint32(p.bytes[len(p.bytes)-ICRCSize:])) }

// Header sizes in bytes, and the protocol number of UDP.
const (
	ip4Size  = 20
	ip6Size  = 40
	udpSize  = 8
	protoUDP = 17
)

// A Flow computes and verifies the ICRCs of packets from one endpoint to another. Call
// Set first. Use one Flow for many packets, because a new Flow is slower.
type Flow struct {
	ip int // size of the IP header in bytes
	// IP and UDP headers as the ICRC covers them. What routers may change is all ones.
	// The identification is zero.
	headers [ip6Size + udpSize]byte
	// Length of the packets for which headerSum is valid: bytes from the BTH to the ICRC.
	length int
	// ICRC of the headers of a packet with this length and identification 0.
	headerSum ICRC

	lastID     uint16 // identification of the last packet
	expectedID uint16 // predicted identification of the next packet
}

// Set makes f the flow from src to dst. Both must be IPv6, or both IPv4 or IPv4-mapped.
// Zones are ignored.
func (f *Flow) Set(src, dst netip.AddrPort) {
	from, to := src.Addr().Unmap(), dst.Addr().Unmap()
	if from.Is4() && to.Is4() {
		f.setIP4(from.As4(), to.As4())
	} else {
		f.setIP6(from.As16(), to.As16())
	}
	udp := f.headers[f.ip:]
	binary.BigEndian.PutUint16(udp[0:], src.Port())
	binary.BigEndian.PutUint16(udp[2:], dst.Port())
	udp[6], udp[7] = 0xff, 0xff // the ICRC is computed as if the checksum were all ones
	// No packet has length 0, so headerSum is computed at the next use.
	f.length = 0
	f.lastID, f.expectedID = 0, 0
}

func (f *Flow) setIP4(src, dst [4]byte) {
	f.ip = ip4Size
	h := f.headers[:ip4Size]
	h[0], h[1] = 0x45, 0xff     // the ICRC is computed as if DSCP and ECN were all ones
	h[4], h[5] = 0, 0           // the identification is zero in this copy
	h[6], h[7] = 0x40, 0        // do not fragment (A17.3.1.1.5)
	h[8], h[9] = 0xff, protoUDP // the ICRC is computed as if the time to live were all ones
	h[10], h[11] = 0xff, 0xff   // the ICRC is computed as if the checksum were all ones
	copy(h[12:], src[:])
	copy(h[16:], dst[:])
}

func (f *Flow) setIP6(src, dst [16]byte) {
	f.ip = ip6Size
	h := f.headers[:ip6Size]
	// The ICRC covers the traffic class and the flow label as ones.
	h[0], h[1], h[2], h[3] = 0x6f, 0xff, 0xff, 0xff
	h[6], h[7] = protoUDP, 0xff // the ICRC covers the hop limit as ones
	copy(h[8:], src[:])
	copy(h[24:], dst[:])
}

// headerICRC returns the ICRC of the IP and UDP headers. The length is the number of
// bytes from the BTH to the ICRC, and id is the IPv4 identification.
func (f *Flow) headerICRC(length int, id uint16) ICRC {
	if length != f.length {
		f.setLength(length)
	}
	if f.ip == ip6Size {
		return f.headerSum
	}
	return f.headerSum ^ identSums[0][id>>8] ^ identSums[1][uint8(id)]
}

func (f *Flow) setLength(length int) {
	datagram := uint16(udpSize + length)
	if f.ip == ip4Size {
		binary.BigEndian.PutUint16(f.headers[2:], ip4Size+datagram)
	} else {
		binary.BigEndian.PutUint16(f.headers[4:], datagram)
	}
	binary.BigEndian.PutUint16(f.headers[f.ip+4:], datagram)
	f.length, f.headerSum = length, icrcSeed.add(f.headers[:f.ip+udpSize])
}

// Seal writes the ICRC to the end of a packet. All other bytes must be final.
//
// For IPv4, the ICRC also covers the identification (RFC 791, 3.1), which the kernel
// writes. So the caller must predict it in the parameter id. On an unconnected socket
// with IP_PMTUDISC_PROBE, the identification is 0. With UDP_SEGMENT, it is the number of
// the segment. For IPv6, Seal ignores id.
func (f *Flow) Seal(p Packet, id uint16) {
	binary.LittleEndian.PutUint32(p.bytes[len(p.bytes)-ICRCSize:], uint32(f.icrcOf(p, id)))
}

// Verify reports whether the ICRC of a received packet is correct.
//
// For IPv4, the ICRC also covers the identification, but a UDP socket does not report the
// identification. So Verify finds the identification that makes the ICRC correct, and
// returns it. The caller then checks the identification with an IdentWindow.
//
// A damaged packet passes Verify with a probability of 1 in 1<<16 for IPv4, and 1 in
// 1<<32 for IPv6.
func (f *Flow) Verify(p Packet) (id uint16, ok bool) {
	difference := p.ICRC() ^ f.icrcOf(p, f.expectedID)
	if f.ip == ip6Size {
		return 0, difference == 0
	}
	id = f.expectedID
	if difference != 0 {
		delta, ok := solve(difference, len(p.bytes))
		if !ok {
			return 0, false
		}
		id ^= delta
	}
	f.predict(id)
	return id, true
}

// predict predicts the next identification. If the last two were equal, it predicts the
// same again. Otherwise it predicts the last one plus one.
func (f *Flow) predict(id uint16) {
	f.expectedID = id + 1
	if id == f.lastID {
		f.expectedID = id
	}
	f.lastID = id
}

// icrcOf computes the ICRC of a packet with the given identification. Switches may change
// the bits FECN and BECN, so their byte is covered as ones.
func (f *Flow) icrcOf(p Packet, id uint16) ICRC {
	sum := f.headerICRC(len(p.bytes), id) ^ maskSums[p.bytes[maskedByte]]
	return sum.add(p.bytes[:len(p.bytes)-ICRCSize])
}

// solve finds the wrong bits of the identification, given the wrong bits of the ICRC. If
// no identification explains the wrong ICRC, ok is false.
//
// The method: a CRC multiplies its register by x for each bit of data. To go back from
// the end of the packet to the identification, solve() divides by x for each bit. The
// result has four bytes, but the identification has only two. So the other two bytes must
// be zero.
func solve(difference ICRC, length int) (changed uint16, ok bool) {
	four := bits.ReverseBytes32(multiply(uint32(difference), inversePowers[length/4]))
	return uint16(four >> 16), uint16(four) == 0
}
