package wire

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/netip"
)

// An ICRC is an invariant CRC, or an intermediate value of its computation. The CRC-32 of
// Ethernet is computed over all fields of a packet that do not change on the network.
// Source: IBTA vol. 1, 7.8.1; annex A17.3.3.
type ICRC uint32

// icrcSeed is the CRC of eight bytes of ones. These bytes stand for the local route
// header, which RoCE does not have.
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
// The kernel writes and removes these headers, so the Flow has a copy of the fields.
//
// To save time, a Flow stores the ICRC of the headers for the packet length that was used
// last, and predicts the next identification. A caller should therefore keep a Flow that
// it uses often, for example in a queue pair. The zero value must be set with Set before
// use.
type Flow struct {
	ip int // Size of the IP header in bytes.
	// headers are the IP and UDP headers as input of the CRC. Fields that routers may
	// change are all ones, and the identification is zero.
	headers [ip6Size + udpSize]byte
	// The packet length for which headerSum was computed, from the BTH to the ICRC.
	length int
	// ICRC of the headers of a packet whose length is in the field length.
	headerSum ICRC

	lastID     uint16 // Identification of the last packet.
	expectedID uint16 // Predicted identification of the next packet.
}

// Set makes f the flow of packets from src to dst. Both addresses must be IPv6, or both
// must be IPv4 or IPv4-mapped IPv6. Set ignores zones.
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
	udp[6], udp[7] = 0xff, 0xff // The ICRC covers a checksum of all ones.
	// No packet has this length, so headerSum is computed for the first packet.
	f.length = 0
	f.lastID, f.expectedID = 0, 0
}

func (f *Flow) setIP4(src, dst [4]byte) {
	f.ip = ip4Size
	h := f.headers[:ip4Size]
	h[0], h[1] = 0x45, 0xff     // The DSCP and ECN bits count as ones.
	h[4], h[5] = 0, 0           // The identification is zero in this copy.
	h[6], h[7] = 0x40, 0        // The flag that forbids fragmentation is set (A17.3.1.1.5).
	h[8], h[9] = 0xff, protoUDP // The time to live counts as ones.
	h[10], h[11] = 0xff, 0xff   // The checksum counts as ones.
	copy(h[12:], src[:])
	copy(h[16:], dst[:])
}

func (f *Flow) setIP6(src, dst [16]byte) {
	f.ip = ip6Size
	h := f.headers[:ip6Size]
	// The traffic class and the flow label count as ones.
	h[0], h[1], h[2], h[3] = 0x6f, 0xff, 0xff, 0xff
	h[6], h[7] = protoUDP, 0xff // The hop limit counts as ones.
	copy(h[8:], src[:])
	copy(h[24:], dst[:])
}

// headerICRC returns the ICRC of the headers. The parameter length is the length of the
// packet in bytes, and id the identification; see Seal.
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

// Seal writes the ICRC of a packet that is complete except for its ICRC. The ICRC covers
// the identification in the IPv4 header (RFC 791, 3.1), so id must be the identification
// that the kernel will choose. On a socket that is not connected and whose option
// IP_MTU_DISCOVER is IP_PMTUDISC_DO, the kernel chooses 0. With UDP_SEGMENT it chooses i
// for segment i of each message. Seal ignores id for IPv6.
func (f *Flow) Seal(p Packet, id uint16) {
	binary.LittleEndian.PutUint32(p.bytes[len(p.bytes)-ICRCSize:], uint32(f.icrcOf(p, id)))
}

// Verify reports whether the ICRC of a packet of the flow is correct. The ICRC covers the
// identification in the IPv4 header, which a UDP socket does not report. Verify therefore
// computes the identification with which the ICRC would be correct, and returns it. Such
// an identification exists for every intact packet, and by chance for one of 1<<16
// damaged packets. The caller then asks an IdentWindow whether the sender may have used
// that identification. IPv6 has no identification, and one of 1<<32 damaged packets
// passes.
//
// Verify and Seal change a byte of the packet during the computation, and restore the
// byte.
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

// icrcOf computes the ICRC of a packet. FECN, BECN and the reserved bits in the same byte
// may change on the network, so they count as ones.
func (f *Flow) icrcOf(p Packet, id uint16) ICRC {
	const maskedByte = 4
	kept := p.bytes[maskedByte]
	p.bytes[maskedByte] = 0xff
	sum := f.headerICRC(len(p.bytes), id).add(p.bytes[:len(p.bytes)-ICRCSize])
	p.bytes[maskedByte] = kept
	return sum
}

// solve returns the exclusive or of two identifications. The parameter length is the
// length of a packet in bytes. The parameter difference is the exclusive or of the ICRCs
// that the packet has with each of the identifications. If no two identifications can
// cause this difference, solve returns false.
//
// The computation uses that the CRC is linear. The identification is in a word of four
// bytes in the IPv4 header. For each bit after that word, the CRC multiplies its register
// by x. So solve divides the difference by x to the power of the number of these bits.
// The result is the exclusive or of the two words, and it is unique. Apart from the
// identification, the word has the flags and the fragment offset. They are the same in
// both words, so their bits in the result must be zero.
func solve(difference ICRC, length int) (changed uint16, ok bool) {
	four := bits.ReverseBytes32(multiply(uint32(difference), inversePowers[length/4]))
	return uint16(four >> 16), uint16(four) == 0
}
