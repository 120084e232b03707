package wire

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/netip"
)

// An ICRC is an invariant CRC, or an intermediate value of its computation. It is the
// CRC-32 of Ethernet over all fields of a packet that do not change on the network.
// Source: IBTA vol. 1, 7.8.1; annex A17.3.3.
type ICRC uint32

// icrcSeed is the CRC of eight bytes of ones. They replace the local route header,
// which RoCE does not have.
const icrcSeed ICRC = 0x2144df1c

func (c ICRC) add(b []byte) ICRC { return ICRC(crc32.Update(uint32(c), crc32.IEEETable, b)) }

// ICRC returns the ICRC field of the packet.
func (p Packet) ICRC() ICRC { return ICRC(binary.LittleEndian.Uint32(p.bytes[len(p.bytes)-ICRCSize:])) }

// Sizes in bytes of the IP and UDP headers, and the protocol number of UDP in IP.
const (
	ip4Size  = 20
	ip6Size  = 40
	udpSize  = 8
	protoUDP = 17
)

// A Flow is one direction of the traffic between two endpoints. It computes the ICRCs of
// the packets in that direction. An ICRC also covers fields of the IP and UDP headers.
// The kernel writes and removes these headers, so the Flow has a copy of the fields. For
// speed, a Flow also stores the ICRC of the headers for the last packet length, and
// predicts the next identification. So a caller should keep a Flow that it uses often,
// for example in a queue pair. The zero value must be set with Set before use.
type Flow struct {
	ip int // Size of the IP header in bytes.
	// headers are the IP and UDP headers as input of the CRC. Fields that routers may
	// change are all ones, and the identification is zero.
	headers [ip6Size + udpSize]byte
	// Packet length, from the BTH to the ICRC, that was used to compute headerSum.
	length int
	// ICRC of the headers, for a packet of the length in the field length.
	headerSum ICRC

	lastID     uint16 // Identification of the last packet.
	expectedID uint16 // Predicted identification of the next packet.
}

// Set makes f the flow of packets from src to dst. Both addresses must be IPv4, which
// may be IPv4-mapped, or both IPv6. Set ignores zones.
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
	udp[6], udp[7] = 0xff, 0xff // checksum
	// No packet has this length, so headerSum is computed for the first packet.
	f.length = 0
	f.lastID, f.expectedID = 0, 0
}

func (f *Flow) setIP4(src, dst [4]byte) {
	f.ip = ip4Size
	h := f.headers[:ip4Size]
	h[0], h[1] = 0x45, 0xff     // DSCP and ECN
	h[4], h[5] = 0, 0           // identification
	h[6], h[7] = 0x40, 0        // Do not fragment (A17.3.1.1.5).
	h[8], h[9] = 0xff, protoUDP // time to live, UDP
	h[10], h[11] = 0xff, 0xff   // checksum
	copy(h[12:], src[:])
	copy(h[16:], dst[:])
}

func (f *Flow) setIP6(src, dst [16]byte) {
	f.ip = ip6Size
	h := f.headers[:ip6Size]
	h[0], h[1], h[2], h[3] = 0x6f, 0xff, 0xff, 0xff // traffic class and flow label
	h[6], h[7] = protoUDP, 0xff                     // UDP, hop limit
	copy(h[8:], src[:])
	copy(h[24:], dst[:])
}

// headerICRC returns the ICRC of the headers of a packet of length bytes with the
// identification id. See Seal for id.
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

// Seal writes the ICRC of a packet that is otherwise complete. The ICRC covers the
// identification of the IPv4 header (RFC 791, 3.1), so id must be the identification
// that the kernel will choose. On a socket that is not connected and whose
// IP_MTU_DISCOVER is IP_PMTUDISC_DO, it is 0. With UDP_SEGMENT, it is i for segment i
// of each message. Seal ignores id for IPv6.
func (f *Flow) Seal(p Packet, id uint16) {
	binary.LittleEndian.PutUint32(p.bytes[len(p.bytes)-ICRCSize:], uint32(f.icrcOf(p, id)))
}

// Verify reports whether the ICRC of a packet of the flow is right. A UDP socket does
// not report the identification in the IPv4 header, which the ICRC covers. Verify
// therefore computes the identification with which the ICRC would be right, and returns
// it. Such an identification exists for every intact packet, and by chance for one
// damaged packet in 1<<16. An IdentWindow decides whether the sender may have used the
// identification. Over IPv6, which has no identification, one damaged packet in 1<<32
// passes. Verify and Seal change a byte of the packet during the computation and
// restore it.
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

// predict predicts the identification of the next packet from the identifications of the
// last two packets. Many senders increase the identification by one for each packet, and
// others always send the same one.
func (f *Flow) predict(id uint16) {
	f.expectedID = id + 1
	if id == f.lastID {
		f.expectedID = id
	}
	f.lastID = id
}

// icrcOf computes the ICRC of a packet. Bits that may change on the network count as
// ones: FECN, BECN and the reserved bits beside them.
func (f *Flow) icrcOf(p Packet, id uint16) ICRC {
	const maskedByte = 4
	kept := p.bytes[maskedByte]
	p.bytes[maskedByte] = 0xff
	sum := f.headerICRC(len(p.bytes), id).add(p.bytes[:len(p.bytes)-ICRCSize])
	p.bytes[maskedByte] = kept
	return sum
}

// solve returns the exclusive or of two identifications. The parameters are the length
// of a packet in bytes, and the difference of the ICRCs that the packet has with each of
// the two identifications. If no two identifications can cause the difference, solve
// returns false.
//
// The CRC is linear. It multiplies four bytes of the header by x once for each bit
// between these bytes and the end of the packet. So solve divides the difference by that
// power of x, and gets the difference of the four bytes. The result is unique. The four
// bytes have the identification, the flags and the fragment offset. The flags and the
// offset do not differ, so their bits in the result must be zero.
func solve(difference ICRC, length int) (changed uint16, ok bool) {
	four := bits.ReverseBytes32(multiply(uint32(difference), inversePowers[length/4]))
	return uint16(four >> 16), uint16(four) == 0
}
