package rsocket

import "encoding/binary"

// ReservedCredits is how many credits a Sender leaves unused. A peer that uses librdmacm
// posts as many receives as it has given credits, and messages that are no data take a
// receive too. A side has at most ReservedCredits messages outstanding that are no data.
const ReservedCredits = 4

// A Sender knows where this side may write the next bytes of the stream. Only one
// goroutine at a time may use it.
type Sender struct {
	// table is the memory of this side's table. The peer may write to it at any time.
	table []byte
	// index in the table of the segment that the peer writes next
	index int

	// current is the rest of the segment that is being filled.
	current Segment
	// next is the segment that follows current. Its length is 0 if the peer has not
	// offered it yet.
	next Segment

	position uint16 // number of all credits that the peer has given, modulo 2^16
	credits  int    // number of data messages that this side may still send
}

// tableOrder is the byte order of this side's table.
var tableOrder = binary.LittleEndian

// TableSegments is the number of segments in this side's table.
const TableSegments = 2

// TableSize is the length of this side's table in bytes.
const TableSize = TableSegments * SegmentSize

// NewSender returns a Sender. The parameter table is the memory of this side's table,
// with TableSize zeros. The parameter peer is the Hello of the peer.
func NewSender(table []byte, peer *Hello) *Sender {
	return &Sender{
		table: table[:TableSize:TableSize], index: 1,
		current: peer.First, position: peer.Credits, credits: int(peer.Credits),
	}
}

// Next returns the memory of the peer for the next data message. Its length is the
// largest number of bytes of the message. If the length is 0, this side must wait for a
// credit message.
func (s *Sender) Next() Segment {
	if s.credits <= ReservedCredits {
		return Segment{}
	}
	return s.current
}

// Sent records that a data message of n bytes was sent to the memory of Next. The number
// is at least 1 and at most the length of Next.
func (s *Sender) Sent(n int) {
	s.credits--
	s.current.Addr += uint64(n)
	s.current.Length -= uint32(n)
	s.advance()
}

// advance goes on to the next segment if the current one is full.
func (s *Sender) advance() {
	if s.current.Length == 0 {
		s.current, s.next = s.next, Segment{}
	}
}

// Credit handles a credit message of the peer. The parameter value is Message.Value. The
// error matches ErrProtocol.
//
// The peer writes a segment to the table before it sends the message. So Credit reads the
// segment at once.
func (s *Sender) Credit(value uint32) error {
	added := uint16(value) - s.position
	if added >= 1<<15 {
		return violation("the number of all credits is %d less than before", -added)
	}
	s.position += added
	if s.credits += int(added); s.credits >= 1<<16 {
		return violation("there are %d credits", s.credits)
	}
	if s.next.Length > 0 {
		return nil
	}
	entry := s.table[s.index*SegmentSize:][:SegmentSize]
	segment := segmentAt(entry, tableOrder)
	if segment.Length == 0 {
		return nil // The message had no segment.
	}
	clear(entry)
	s.index = (s.index + 1) % TableSegments
	s.next = segment
	s.advance()
	return nil
}
