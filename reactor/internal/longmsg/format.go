// Package longmsg has the formats of the protocol for long messages. All numbers are in
// network byte order.
//
// An offer is at the end of the private data of a connection request, and of the reply
// to a request with an offer:
//
//	4 bytes  magic
//	4 bytes  length in bytes of the longest message that its sender accepts; 0 means none
//
// If both sides have sent an offer, a SEND with the immediate data that its sender uses
// for control messages, at first FirstImm, is one. The application does not see it:
//
//	1 byte   kind
//	1 byte   1 if a long message has immediate data, and else 0
//	1 byte   number of segments
//	1 byte   0
//	4 bytes  a number: see Kind
//
// In a control message of the kind Announce, segments follow. A segment has an
// address (8 bytes), a remote key (4 bytes) and a length (4 bytes).
package longmsg

import "encoding/binary"

const (
	// magic marks an offer. Its last byte is the version of the protocol.
	magic = 0x726C6D01
	// OfferSize is the size of an offer in bytes.
	OfferSize = 8

	controlHeader = 8
	segmentSize   = 16
	// MaxSegments is the largest number of segments of a long message. Arbitrary.
	MaxSegments = 8
	// MaxControl is the size in bytes of the longest control message.
	MaxControl = controlHeader + MaxSegments*segmentSize

	// FirstImm is the immediate data of control messages on a new connection. If the
	// application sends a message with the same immediate data, a control message of the kind
	// Rename precedes the message of the application.
	FirstImm = 0x726C6D6C
)

// A Kind is the first byte of a control message.
type Kind uint8

const (
	// Announce: the sender announces a long message. The number is the immediate
	// data of that message.
	Announce Kind = 1 + iota
	// Done: the receiver does not need the memory of some long messages any more.
	// The number counts all such messages since the connection was opened, modulo 2^32.
	Done
	// Rename: the next control messages have other immediate data. The number is
	// that immediate data.
	Rename
)

// A Segment is a part of a long message in the memory of the sender.
type Segment struct {
	Addr   uint64
	RKey   uint32
	Length uint32 // in bytes; not 0
}

// A Control is a decoded control message.
type Control struct {
	Kind     Kind
	HasImm   bool
	Number   uint32
	Segments [MaxSegments]Segment
	Count    int    // number of segments
	Total    uint64 // sum of the lengths of the segments
}

// Add adds a segment.
func (c *Control) Add(s Segment) {
	c.Segments[c.Count] = s
	c.Count++
	c.Total += uint64(s.Length)
}

// AppendTo appends the encoded message to b.
func (c *Control) AppendTo(b []byte) []byte {
	b = append(b, byte(c.Kind), 0, byte(c.Count), 0)
	if c.HasImm {
		b[len(b)-3] = 1
	}
	b = binary.BigEndian.AppendUint32(b, c.Number)
	for _, s := range c.Segments[:c.Count] {
		b = binary.BigEndian.AppendUint64(b, s.Addr)
		b = binary.BigEndian.AppendUint32(b, s.RKey)
		b = binary.BigEndian.AppendUint32(b, s.Length)
	}
	return b
}

// Decode decodes a control message. It accepts exactly what AppendTo produces. The result
// is "", or the reason why b is not accepted.
func (c *Control) Decode(b []byte) (reason string) {
	*c = Control{}
	if len(b) < controlHeader {
		return "a control message is too short"
	}
	count := int(b[2])
	c.Kind, c.HasImm, c.Number = Kind(b[0]), b[1] == 1, binary.BigEndian.Uint32(b[4:])
	announce := c.Kind == Announce
	switch {
	case c.Kind < Announce || c.Kind > Rename:
		return "a control message has an unknown kind"
	case b[1] > 1 || c.HasImm && !announce || b[3] != 0:
		return "a control message has unknown flags"
	case announce != (count > 0) || count > MaxSegments:
		return "the number of segments is out of range"
	case len(b) != controlHeader+count*segmentSize:
		return "the length of a control message does not fit its number of segments"
	case announce && !c.HasImm && c.Number != 0:
		return "there is immediate data, but no flag for it"
	}
	for b = b[controlHeader:]; len(b) > 0; b = b[segmentSize:] {
		s := Segment{
			Addr: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:]), Length: binary.BigEndian.Uint32(b[12:]),
		}
		switch {
		case s.Length == 0:
			return "a segment has no bytes"
		case s.Addr+uint64(s.Length-1) < s.Addr:
			return "a segment ends after the largest address"
		}
		c.Add(s)
	}
	return ""
}

// AppendOffer returns private data that consists of the application's data, zeros and an
// offer. The parameter room is the largest length of private data.
func AppendOffer(data []byte, room int, limit uint32) []byte {
	b := make([]byte, room)
	copy(b, data)
	binary.BigEndian.PutUint32(b[room-OfferSize:], magic)
	binary.BigEndian.PutUint32(b[room-OfferSize/2:], limit)
	return b
}

// SplitOffer separates the peer's private data from the offer that AppendOffer has added.
// If there is no offer, ok is false, and user is data. Zeros may follow the offer,
// because connection managers pad private data.
func SplitOffer(data []byte, room int) (user []byte, limit uint32, ok bool) {
	if len(data) < room || binary.BigEndian.Uint32(data[room-OfferSize:]) != magic {
		return data, 0, false
	}
	return data[: room-OfferSize : room-OfferSize], binary.BigEndian.Uint32(data[room-OfferSize/2:]), true
}
