package reactor

import (
	"encoding/binary"
	"fmt"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file has the formats of the protocol for long messages. All numbers are in network
// byte order.
//
// An offer is at the end of the private data of a connection request, and of the reply
// to a request with an offer:
//
//	4 bytes  longMagic
//	4 bytes  length in bytes of the longest message that its sender accepts; 0 means none
//
// If both sides have sent an offer, a SEND whose immediate data is the sender's
// controlImm is a control message, which the application does not see:
//
//	1 byte   kind
//	1 byte   1 if a long message has immediate data, and else 0
//	1 byte   number of segments
//	1 byte   0
//	4 bytes  a number: see controlKind
//
// In a control message of the kind controlAnnounce, segments follow. A segment has an
// address (8 bytes), a remote key (4 bytes) and a length (4 bytes).

const (
	// longMagic marks an offer. Its last byte is the version of the protocol.
	longMagic = 0x726C6D01
	offerSize = 8

	controlHeader = 8
	segmentSize   = RemoteSize + 4
	// maxSegments is the largest number of segments of a long message. Arbitrary.
	maxSegments = 8
	// maxControl is the size in bytes of the longest control message.
	maxControl = controlHeader + maxSegments*segmentSize

	// firstControlImm is the immediate data of control messages on a new connection. If the
	// application sends a message with the same immediate data, a control message of the kind
	// controlRename precedes the message of the application.
	firstControlImm = 0x726C6D6C
)

// A controlKind is the first byte of a control message.
type controlKind uint8

const (
	// controlAnnounce: the sender announces a long message. The number is the immediate
	// data of that message.
	controlAnnounce controlKind = 1 + iota
	// controlDone: the receiver does not need the memory of some long messages any more.
	// The number counts all such messages since the connection was opened, modulo 2^32.
	controlDone
	// controlRename: the next control messages have other immediate data. The number is
	// that immediate data.
	controlRename
)

// A segment is a part of a long message in the memory of the sender.
type segment struct {
	remote Remote
	length uint32 // in bytes; not 0
}

// A control is a decoded control message.
type control struct {
	kind     controlKind
	hasImm   bool
	number   uint32
	segments [maxSegments]segment
	count    int    // number of segments
	total    uint64 // sum of the lengths of the segments
}

// add adds a segment.
func (m *control) add(s segment) {
	m.segments[m.count] = s
	m.count++
	m.total += uint64(s.length)
}

// appendTo appends the encoded message to b.
func (m *control) appendTo(b []byte) []byte {
	b = append(b, byte(m.kind), 0, byte(m.count), 0)
	if m.hasImm {
		b[len(b)-3] = 1
	}
	b = binary.BigEndian.AppendUint32(b, m.number)
	for _, s := range m.segments[:m.count] {
		b = binary.BigEndian.AppendUint64(b, s.remote.Addr)
		b = binary.BigEndian.AppendUint32(b, s.remote.RKey)
		b = binary.BigEndian.AppendUint32(b, s.length)
	}
	return b
}

// decode decodes a control message. It accepts exactly what appendTo produces. The result
// is "", or the reason why b is not accepted.
func (m *control) decode(b []byte) (reason string) {
	*m = control{}
	if len(b) < controlHeader {
		return "a control message is too short"
	}
	count := int(b[2])
	m.kind, m.hasImm, m.number = controlKind(b[0]), b[1] == 1, binary.BigEndian.Uint32(b[4:])
	announce := m.kind == controlAnnounce
	switch {
	case m.kind < controlAnnounce || m.kind > controlRename:
		return "a control message has an unknown kind"
	case b[1] > 1 || m.hasImm && !announce || b[3] != 0:
		return "a control message has unknown flags"
	case announce != (count > 0) || count > maxSegments:
		return "the number of segments is out of range"
	case len(b) != controlHeader+count*segmentSize:
		return "the length of a control message does not fit its number of segments"
	case announce && !m.hasImm && m.number != 0:
		return "there is immediate data, but no flag for it"
	}
	for b = b[controlHeader:]; len(b) > 0; b = b[segmentSize:] {
		s := segment{
			remote: Remote{Addr: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:])},
			length: binary.BigEndian.Uint32(b[12:]),
		}
		switch {
		case s.length == 0:
			return "a segment has no bytes"
		case s.remote.Addr+uint64(s.length-1) < s.remote.Addr:
			return "a segment ends after the largest address"
		}
		m.add(s)
	}
	return ""
}

// appendOffer returns private data that consists of the application's data, zeros and an
// offer. The parameter room is the largest length of private data.
func appendOffer(data []byte, room int, limit uint32) []byte {
	b := make([]byte, room)
	copy(b, data)
	binary.BigEndian.PutUint32(b[room-offerSize:], longMagic)
	binary.BigEndian.PutUint32(b[room-offerSize/2:], limit)
	return b
}

// splitOffer separates the peer's private data from the offer that appendOffer has added.
// If there is no offer, ok is false, and user is data. Zeros may follow the offer,
// because connection managers pad private data.
func splitOffer(data []byte, room int) (user []byte, limit uint32, ok bool) {
	if len(data) < room || binary.BigEndian.Uint32(data[room-offerSize:]) != longMagic {
		return data, 0, false
	}
	return data[: room-offerSize : room-offerSize], binary.BigEndian.Uint32(data[room-offerSize/2:]), true
}

// A LongMessageError is the error of OnClose on a connection whose peer has announced a
// long message that can not be received, or has violated the protocol for long messages.
// It matches verbs.ErrProtocol, and Err if that is not nil.
type LongMessageError struct {
	Length uint64 // length of the message in bytes; 0 if it is not known
	Reason string
	Err    error // error of a READ, such as a *verbs.CompletionError, or nil
}

// Error returns the length, the reason and the text of Err.
func (e *LongMessageError) Error() string {
	text := fmt.Sprintf("long message of %d bytes: %s", e.Length, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns verbs.ErrProtocol and Err.
func (e *LongMessageError) Unwrap() []error {
	if e.Err == nil {
		return []error{verbs.ErrProtocol}
	}
	return []error{verbs.ErrProtocol, e.Err}
}
