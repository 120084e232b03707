package rsocket

import "encoding/binary"

// SegmentSize is the length of a segment in a table, in bytes.
const SegmentSize = 16

// A Segment is memory of one side, into which the peer may write. In a table it has these
// fields, in the byte order of the owner of the table:
//
//	 0  address (64)
//	 8  key (32)
//	12  length in bytes (32)
type Segment struct {
	Addr   uint64
	Key    uint32
	Length uint32
}

// A Table is memory of one side, into which the peer writes the segments that it offers.
// In rsocket(7) it is the target SGL.
type Table struct {
	Addr    uint64
	Key     uint32
	Entries uint32 // number of segments for which the table has room, at least 1
}

// byteOrder returns the byte order of a table.
func byteOrder(bigEndian bool) binary.ByteOrder {
	if bigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// put encodes the segment in the first SegmentSize bytes of b.
func (s *Segment) put(b []byte, order binary.ByteOrder) {
	order.PutUint64(b, s.Addr)
	order.PutUint32(b[8:], s.Key)
	order.PutUint32(b[12:], s.Length)
}

// segmentAt decodes the segment in the first SegmentSize bytes of b.
func segmentAt(b []byte, order binary.ByteOrder) Segment {
	return Segment{Addr: order.Uint64(b), Key: order.Uint32(b[8:]), Length: order.Uint32(b[12:])}
}
