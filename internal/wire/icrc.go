package wire

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/netip"
)

// An ICRC is an invariant CRC, or the beginning of one: the CRC-32 of Ethernet,
// over everything in a packet that does not change on its way. Source: IBTA vol.
// 1, 7.8.1; annex A17.3.3.
type ICRC uint32

// icrcSeed is the CRC of the eight bytes of ones that stand for the local route
// header, which RoCE does not have.
const icrcSeed ICRC = 0x2144df1c

func (c ICRC) add(b []byte) ICRC { return ICRC(crc32.Update(uint32(c), crc32.IEEETable, b)) }

// ICRC is what the packet says its ICRC is.
func (p Packet) ICRC() ICRC { return ICRC(binary.LittleEndian.Uint32(p.bytes[len(p.bytes)-ICRCSize:])) }

// Sizes of the headers below ours, and the protocol number, in IP, of UDP.
const (
	ip4Size  = 20
	ip6Size  = 40
	udpSize  = 8
	protoUDP = 17
)

// A Flow is one direction of one pair of endpoints. The ICRC covers the IP and
// UDP headers, which the kernel writes and removes; a Flow knows what is in them.
// It has scratch space, so that nothing is allocated, and remembers the ICRC of
// the headers for the length that it had last, and how the sender counts: keep one
// where it is used often, as in a queue pair. The zero value is to be Set first.
type Flow struct {
	ip int // size of the IP header
	// headers are IP and UDP as the CRC gets them: what may change on the way is
	// ones, and the identification is zero.
	headers [ip6Size + udpSize]byte
	length  int  // of the packet that begun is for, from the BTH to the ICRC
	begun   ICRC // of headers, with that length in them

	last, guess uint16 // identifications: of the last packet, and likely of the next
}

// Set makes f the flow of packets from src to dst. Both are IPv4, which may be
// mapped, or both are IPv6; zones do not count.
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
	f.length = 0                // which no packet has
	f.last, f.guess = 0, 0
}

func (f *Flow) setIP4(src, dst [4]byte) {
	f.ip = ip4Size
	h := f.headers[:ip4Size]
	h[0], h[1] = 0x45, 0xff     // DSCP and ECN
	h[4], h[5] = 0, 0           // identification
	h[6], h[7] = 0x40, 0        // must not be fragmented (A17.3.1.1.5)
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

// begin is the ICRC of the headers in front of a packet of length bytes; for id,
// see Seal.
func (f *Flow) begin(length int, id uint16) ICRC {
	if length != f.length {
		f.setLength(length)
	}
	if f.ip == ip6Size {
		return f.begun
	}
	return f.begun ^ identSums[0][id>>8] ^ identSums[1][uint8(id)]
}

func (f *Flow) setLength(length int) {
	datagram := uint16(udpSize + length)
	if f.ip == ip4Size {
		binary.BigEndian.PutUint16(f.headers[2:], ip4Size+datagram)
	} else {
		binary.BigEndian.PutUint16(f.headers[4:], datagram)
	}
	binary.BigEndian.PutUint16(f.headers[f.ip+4:], datagram)
	f.length, f.begun = length, icrcSeed.add(f.headers[:f.ip+udpSize])
}

// Seal writes the ICRC of a packet that is complete otherwise, and will have the
// identification id in its IPv4 header (RFC 791, 3.1). The ICRC covers that, so
// it must be known beforehand. It is 0 for what leaves a socket that is not
// connected and whose IP_MTU_DISCOVER is IP_PMTUDISC_DO; with UDP_SEGMENT, it is
// i for segment i of each message. For IPv6 it does not count.
func (f *Flow) Seal(p Packet, id uint16) {
	binary.LittleEndian.PutUint32(p.bytes[len(p.bytes)-ICRCSize:], uint32(f.sum(p, id)))
}

// Verify reports whether the ICRC of a packet of the flow is right. A UDP socket does
// not report the identification in the IPv4 header, which the ICRC covers. Verify
// therefore computes the identification with which the ICRC would be right, and
// returns it. Such an identification exists for every intact packet, and by chance
// for one damaged packet in 1<<16; over IPv6 one damaged packet in 1<<32 passes. An
// IdentWindow decides whether the sender may have used the identification. As Seal
// does, Verify changes a byte of the packet while it looks at it.
func (f *Flow) Verify(p Packet) (id uint16, ok bool) {
	difference := p.ICRC() ^ f.sum(p, f.guess)
	if f.ip == ip6Size {
		return 0, difference == 0
	}
	id = f.guess
	if difference != 0 {
		delta, ok := solve(difference, len(p.bytes))
		if !ok {
			return 0, false
		}
		id ^= delta
	}
	f.count(id)
	return id, true
}

// count guesses what follows an identification: many senders count up, or have
// always the same.
func (f *Flow) count(id uint16) {
	f.guess = id + 1
	if id == f.last {
		f.guess = id
	}
	f.last = id
}

// sum is what the ICRC of a packet should be. What the CRC is not to see of the
// BTH, it gets as ones: FECN, BECN and the bits reserved beside them.
func (f *Flow) sum(p Packet, id uint16) ICRC {
	const maskedByte = 4
	kept := p.bytes[maskedByte]
	p.bytes[maskedByte] = 0xff
	sum := f.begin(len(p.bytes), id).add(p.bytes[:len(p.bytes)-ICRCSize])
	p.bytes[maskedByte] = kept
	return sum
}

// solve finds in which bits two identifications differ that make this difference
// in the ICRC of a packet of length bytes.
//
// The CRC is linear: four bytes of the header are multiplied by x once for each
// bit from there to the end. So the way back is a division by that power of x,
// and it has one answer. The four bytes are identification, flags and fragment
// offset, of which the last two can not differ from ours.
func solve(difference ICRC, length int) (changed uint16, ok bool) {
	four := bits.ReverseBytes32(multiply(uint32(difference), inversePowers[length/4]))
	return uint16(four >> 16), uint16(four) == 0
}
