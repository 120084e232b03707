package wire

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/netip"
)

// An ICRC is the invariant CRC at the end of a packet, or an intermediate value of its
// computation. It is the CRC-32 of Ethernet, computed over all fields of the packet and
// its IP and UDP headers that do not change on the network. Source: IBTA vol. 1, 7.8.1;
// annex A17.3.3.
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

// A Flow computes and verifies the ICRCs of the packets that one endpoint sends to
// another. An ICRC also covers fields of the IP and UDP headers. The kernel writes and
// removes these headers, so the Flow has a copy of the fields.
//
// To save time, a Flow stores the ICRC of the headers for the packet length that was used
// last, and predicts the next identification. A caller should therefore keep a Flow that
// it uses often, for example in a queue pair. Set must be called before any other method.
type Flow struct {
	ip int // Size of the IP header in bytes.
	// The IP and UDP headers as the ICRC covers them. Fields that routers may change are
	// all ones, and the identification is zero.
	headers [ip6Size + udpSize]byte
	// Packet length in bytes, from the BTH to the ICRC, for which headerSum was computed.
	length int
	// ICRC of the IP and UDP headers of a packet with that length and the identification
	// 0.
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
	udp[6], udp[7] = 0xff, 0xff // The ICRC covers the checksum field as all ones.
	// The length 0 forces the computation of headerSum before its first use, because no
	// packet has this length.
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

// headerICRC returns the ICRC of the IP and UDP headers. The parameter length is the
// length in bytes of the packet from the BTH to the ICRC. The parameter id is the
// identification in the IPv4 header.
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

// Seal computes the ICRC of a packet and writes it to the end of the packet. All other
// bytes of the packet must have their final values.
//
// The ICRC of an IPv4 packet covers the identification (RFC 791, 3.1), which the kernel
// writes into the IPv4 header after the call. The parameter id must be that
// identification. If a socket is not connected and its option IP_MTU_DISCOVER is
// IP_PMTUDISC_DO, it sends packets with the identification 0. With UDP_SEGMENT it sends
// segment i of each message with the identification i. Seal ignores id for IPv6.
func (f *Flow) Seal(p Packet, id uint16) {
	binary.LittleEndian.PutUint32(p.bytes[len(p.bytes)-ICRCSize:], uint32(f.icrcOf(p, id)))
}

// Verify reports whether the ICRC of a received packet of the flow is correct.
//
// For IPv4 it also returns an identification. The ICRC covers the identification in the
// IPv4 header, but a UDP socket does not report the identification. So Verify computes an
// identification with which the ICRC is correct. For an undamaged packet there always is
// one. A damaged packet has one by chance, with a probability of 1 in 1<<16. Therefore
// the caller passes the result to an IdentWindow, which says whether the sender may have
// used that identification. An IPv6 header has no identification, so a damaged packet
// passes with a probability of 1 in 1<<32.
//
// During the computation, Verify and Seal change a byte of the packet. They restore the
// byte before they return.
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

// predict stores a prediction of the identification of the next packet. If the last two
// packets had the same identification, it predicts the same once more. Otherwise it
// predicts the last one plus one. Most senders number their packets in one of these two
// ways.
func (f *Flow) predict(id uint16) {
	f.expectedID = id + 1
	if id == f.lastID {
		f.expectedID = id
	}
	f.lastID = id
}

// icrcOf computes the ICRC of a packet with the given identification. Switches may change
// FECN, BECN and the reserved bits, which together are one byte of the BTH. So the ICRC
// covers this byte as all ones.
func (f *Flow) icrcOf(p Packet, id uint16) ICRC {
	const maskedByte = 4
	kept := p.bytes[maskedByte]
	p.bytes[maskedByte] = 0xff
	sum := f.headerICRC(len(p.bytes), id).add(p.bytes[:len(p.bytes)-ICRCSize])
	p.bytes[maskedByte] = kept
	return sum
}

// solve finds out by which bits two identifications of the same packet differ. The
// parameter difference is the exclusive or of the two ICRCs of the packet, one for each
// identification. The parameter length is the length of the packet in bytes. solve
// returns the exclusive or of the two identifications. It returns false if no two
// identifications cause this difference.
//
// The computation is possible because the CRC is linear. The identification is the first
// half of a word of four bytes in the IPv4 header. For each bit between the beginning of
// that word and the end of the covered data, the CRC multiplies its register by x. So
// solve divides the difference by x to the power of the number of these bits. The result
// is the exclusive or of the two words, and it is unique. The second half of the word has
// the flags and the fragment offset. These are equal in both words, so the second half of
// the result must be zero.
func solve(difference ICRC, length int) (changed uint16, ok bool) {
	four := bits.ReverseBytes32(multiply(uint32(difference), inversePowers[length/4]))
	return uint16(four >> 16), uint16(four) == 0
}
