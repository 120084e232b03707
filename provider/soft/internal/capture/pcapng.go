package capture

import (
	"encoding/binary"
	"time"
)

// An Interface is a path of the device. The file has one interface for each.
type Interface uint32

// Interfaces of the file, in their order there.
const (
	Wire Interface = iota
	Local
	interfaces
)

// A Direction is the value of the option epb_flags of a packet.
type Direction uint32

// Directions of a packet, as the device sees it.
const (
	Inbound  Direction = 1
	Outbound Direction = 2
)

// Types of blocks.
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockStats     = 5
	blockPacket    = 6
)

// linkTypeRaw (LINKTYPE_RAW) means that a packet begins with its IP header.
const linkTypeRaw = 101

// Codes of options.
const (
	optEnd         = 0
	optApplication = 4 // shb_userappl
	optName        = 2 // if_name
	optDescription = 3 // if_description
	optResolution  = 9 // if_tsresol
	optFlags       = 2 // epb_flags
	optReceived    = 4 // isb_ifrecv
	optDropped     = 5 // isb_ifdrop
)

// nanoseconds is the value of if_tsresol for times in units of 10^-9 s.
const nanoseconds = 9

// The file has the byte order of this variable on every machine.
var order = binary.LittleEndian

// appendHeader appends the blocks with which a file begins. The parameter snap is the largest
// number of bytes of a packet in the file.
func appendHeader(b []byte, snap int) []byte {
	start := len(b)
	b = beginBlock(b, blockSection)
	b = order.AppendUint32(b, 0x1a2b3c4d) // byte-order magic
	b = order.AppendUint16(b, 1)          // version 1.0
	b = order.AppendUint16(b, 0)
	b = order.AppendUint64(b, 1<<64-1) // length of the section: not known
	b = appendOption(b, optApplication, "rdmaloop")
	b = endBlock(b, start)
	for _, i := range []struct{ name, description string }{
		Wire:  {"wire", "packets of RoCEv2, with IP and UDP headers that are made up"},
		Local: {"local", "messages in shared memory, as the packets that they would have been"},
	} {
		start = len(b)
		b = beginBlock(b, blockInterface)
		b = order.AppendUint16(b, linkTypeRaw)
		b = order.AppendUint16(b, 0)
		b = order.AppendUint32(b, uint32(snap))
		b = appendOption(b, optName, i.name)
		b = appendOption(b, optDescription, i.description)
		b = appendOption(b, optResolution, string([]byte{nanoseconds}))
		b = endBlock(b, start)
	}
	return b
}

// appendStats appends the statistics of an interface: how many packets it had, and how many
// of them are not in the file.
func appendStats(b []byte, i Interface, now time.Time, packets, dropped uint64) []byte {
	start := len(b)
	b = beginBlock(b, blockStats)
	b = order.AppendUint32(b, uint32(i))
	b = appendTime(b, now)
	b = appendOption(b, optReceived, string(order.AppendUint64(nil, packets)))
	b = appendOption(b, optDropped, string(order.AppendUint64(nil, dropped)))
	return endBlock(b, start)
}

func beginBlock(b []byte, kind uint32) []byte {
	b = order.AppendUint32(b, kind)
	return order.AppendUint32(b, 0) // length, which endBlock sets
}

// endBlock ends the options of a block that begins at start, and sets its length.
func endBlock(b []byte, start int) []byte {
	b = order.AppendUint32(b, optEnd)
	size := uint32(len(b) - start + 4)
	order.PutUint32(b[start+4:], size)
	return order.AppendUint32(b, size)
}

func appendOption(b []byte, code uint16, value string) []byte {
	b = order.AppendUint16(b, code)
	b = order.AppendUint16(b, uint16(len(value)))
	b = append(b, value...)
	return append(b, make([]byte, padding(len(value)))...)
}

// appendTime appends a time: the high and then the low 32 bits of the nanoseconds since 1970.
func appendTime(b []byte, at time.Time) []byte {
	ns := uint64(at.UnixNano())
	b = order.AppendUint32(b, uint32(ns>>32))
	return order.AppendUint32(b, uint32(ns))
}

// padding returns the number of bytes after n bytes up to a multiple of four.
func padding(n int) int { return -n & 3 }

// Sizes in bytes of what a block of a packet has before and after the packet.
const (
	packetHead = 28
	packetTail = 16 // after the padding
)

// packetBlock returns the size of the block of a packet of which n bytes are kept.
func packetBlock(n int) int { return packetHead + n + padding(n) + packetTail }

// appendPacketHead appends the begin of the block of a packet. The packet has length bytes, of
// which the file has the first kept ones.
func appendPacketHead(b []byte, i Interface, at time.Time, kept, length int) []byte {
	b = order.AppendUint32(b, blockPacket)
	b = order.AppendUint32(b, uint32(packetBlock(kept)))
	b = order.AppendUint32(b, uint32(i))
	b = appendTime(b, at)
	b = order.AppendUint32(b, uint32(kept))
	return order.AppendUint32(b, uint32(length))
}

// appendPacketTail appends the end of the block of a packet.
func appendPacketTail(b []byte, d Direction, kept int) []byte {
	b = append(b, "\x00\x00\x00"[:padding(kept)]...)
	b = order.AppendUint16(b, optFlags)
	b = order.AppendUint16(b, 4)
	b = order.AppendUint32(b, uint32(d))
	b = order.AppendUint32(b, optEnd)
	return order.AppendUint32(b, uint32(packetBlock(kept)))
}

// timeOf returns the time of the packet of a block, as a number that can be compared.
func timeOf(head []byte) uint64 {
	return uint64(order.Uint32(head[12:]))<<32 | uint64(order.Uint32(head[16:]))
}

// sizeOf returns the size of a block.
func sizeOf(head []byte) int { return int(order.Uint32(head[4:])) }

// wholeBlocks returns how many of the first n bytes are whole blocks. It also returns how many
// packets are in the blocks after them.
func wholeBlocks(blocks []byte, n int) (whole int, packetsAfter uint64) {
	for at := 0; at < len(blocks); {
		size := sizeOf(blocks[at:])
		if at+size <= n {
			whole = at + size
		} else if order.Uint32(blocks[at:]) == blockPacket {
			packetsAfter++
		}
		at += size
	}
	return whole, packetsAfter
}
