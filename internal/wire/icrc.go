package wire

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/netip"
)

// An ICRC is the invariant CRC of a packet, or an intermediate value. It covers all
// fields that the network does not change. Source: IBTA vol. 1, 7.8.1; annex A17.3.3.
type ICRC uint32

// icrcSeed is the CRC of eight bytes of ones, in place of the local route header.
const icrcSeed ICRC = 0x2144df1c

func (c ICRC) add(b []byte) ICRC { return ICRC(crc32.Update(uint32(c), crc32.IEEETable, b)) }

// ICRC returns the ICRC field of the packet.
func (p Packet) ICRC() ICRC { return ICRC(binary.LittleEndian.Uint32(p.bytes[len(p.bytes)-ICRCSize:])) }

// Sizes in bytes of the IP and UDP headers; protocol number of UDP.
const (
	ip4Size  = 20
	ip6Size  = 40
	udpSize  = 8
	protoUDP = 17
)

// A Flow computes and verifies the ICRCs of packets from one endpoint to another. Set
// must be called first. One Flow for many packets is faster than a new Flow for each
// packet.
type Flow struct {
	ip int // Size of the IP header in bytes.
	// The headers as the ICRC covers them: fields that routers may change are all ones,
	// and the identification is zero.
	headers [ip6Size + udpSize]byte
	// Packet length in bytes, from the BTH to the ICRC, for which headerSum is valid.
	length int
	// ICRC of the headers, for a packet of that length and identification 0.
	headerSum ICRC

	lastID     uint16 // Identification of the last packet.
	expectedID uint16 // Predicted identification of the next packet.
}

// Set makes f the flow from src to dst. Both must be IPv6, or both IPv4 or IPv4-mapped.
// Set ignores zones.
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
	udp[6], udp[7] = 0xff, 0xff // The ICRC covers the checksum field as all ones.
	// No packet has the length 0, so the next use computes headerSum.
	f.length = 0
	f.lastID, f.expectedID = 0, 0
}

func (f *Flow) setIP4(src, dst [4]byte) {
	f.ip = ip4Size
	h := f.headers[:ip4Size]
	h[0], h[1] = 0x45, 0xff     // The ICRC covers the DSCP and ECN bits as ones.
	h[4], h[5] = 0, 0           // The identification is zero in this copy.
	h[6], h[7] = 0x40, 0        // The flag that forbids fragmentation is set (A17.3.1.1.5).
	h[8], h[9] = 0xff, protoUDP // The ICRC covers the time to live as ones.
	h[10], h[11] = 0xff, 0xff   // The ICRC covers the checksum as ones.
	copy(h[12:], src[:])
	copy(h[16:], dst[:])
}

func (f *Flow) setIP6(src, dst [16]byte) {
	f.ip = ip6Size
	h := f.headers[:ip6Size]
	// The ICRC covers the traffic class and the flow label as ones.
	h[0], h[1], h[2], h[3] = 0x6f, 0xff, 0xff, 0xff
	h[6], h[7] = protoUDP, 0xff // The ICRC covers the hop limit as ones.
	copy(h[8:], src[:])
	copy(h[24:], dst[:])
}

// headerICRC returns the ICRC of the IP and UDP headers. The parameter length is in
// bytes, from the BTH to the ICRC. The parameter id is the IPv4 identification.
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
// The parameter id is the identification that the kernel will write into the IPv4 header
// (RFC 791, 3.1). On an unconnected socket with IP_PMTUDISC_DO, it is 0. With
// UDP_SEGMENT, it is the number of the segment. For IPv6, Seal ignores id.
func (f *Flow) Seal(p Packet, id uint16) {
	binary.LittleEndian.PutUint32(p.bytes[len(p.bytes)-ICRCSize:], uint32(f.icrcOf(p, id)))
}

// Verify reports whether the ICRC of a received packet is correct.
//
// For IPv4 the ICRC also covers the identification, which a UDP socket does not report.
// Verify returns the identification with which the ICRC is correct. The caller checks
// this identification with an IdentWindow.
//
// A damaged packet passes Verify with a probability of 1 in 1<<16 for IPv4, and 1 in
// 1<<32 for IPv6.
//
// Verify changes a byte of the packet, and restores the byte before it returns.
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

// predict predicts the next identification: the same again if the last two were equal,
// and otherwise the last one plus one.
func (f *Flow) predict(id uint16) {
	f.expectedID = id + 1
	if id == f.lastID {
		f.expectedID = id
	}
	f.lastID = id
}

// icrcOf computes the ICRC of a packet with the given identification. Switches may change
// the bits FECN and BECN, so the ICRC covers their byte as all ones.
func (f *Flow) icrcOf(p Packet, id uint16) ICRC {
	const maskedByte = 4
	kept := p.bytes[maskedByte]
	p.bytes[maskedByte] = 0xff
	sum := f.headerICRC(len(p.bytes), id).add(p.bytes[:len(p.bytes)-ICRCSize])
	p.bytes[maskedByte] = kept
	return sum
}

// solve returns the change of the identification that causes the given change of the
// ICRC. A change is the exclusive or of two values. If no identification causes the
// change, solve() returns false.
//
// A CRC multiplies its register by x for each bit of data. So solve() divides by x for
// each bit from the identification on. The quotient must end with two zero bytes.
func solve(difference ICRC, length int) (changed uint16, ok bool) {
	four := bits.ReverseBytes32(multiply(uint32(difference), inversePowers[length/4]))
	return uint16(four >> 16), uint16(four) == 0
}
