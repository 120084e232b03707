// Package rsocket has the messages of the rsocket protocol, and the rules of its two
// directions. It does no input and output. The protocol is that of rsocket(7) over RoCE:
// a stream of bytes on a reliable connection. The file librdmacm/docs/rsocket of
// rdma-core describes it. The names there are: target SGL for the table, SGE for a
// segment, and iomap for the table of mapped memory.
//
// Each side has a ring of memory, into which the peer writes the bytes of the stream with
// RDMA WRITEs with immediate data. The immediate data says how many bytes were written.
// The ring has two halves. A half that was read is offered to the peer as a Segment: an
// address, a key and a length. Each side also has a table of two segments, into which the
// peer writes the segments that it offers.
//
// A side has credits: the number of data messages that it may still send. The peer raises
// the number when the application has read messages. Messages that are no data need no
// credits.
package rsocket

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// HelloSize is the length of an encoded Hello in bytes.
const HelloSize = 40

// version is the version of the protocol.
const version = 1

// Bits of the byte flags of an encoded Hello.
const (
	flagBigEndian = 1 << iota // Hello.BigEndian
	flagMappings              // the number of mappings is valid
)

// A Hello describes the memory of one side. Each side sends its Hello at the beginning of
// the private data: the dialing side in the connection request, and the accepting side in
// the reply. The numbers in an encoded Hello are big endian:
//
//	 0  version (8), 1
//	 1  flags (8)
//	 2  credits (16)
//	 4  reserved (24)
//	 7  number of mappings (8)
//	 8  table of segments: address (64), key (32), number of segments (32)
//	24  first segment: address (64), key (32), length in bytes (32)
type Hello struct {
	// BigEndian is true if the numbers in the table of the sender of the Hello are big
	// endian.
	BigEndian bool
	Credits   uint16 // number of data messages that the peer may send at first
	Table     Table  // table of the sender of the Hello
	First     Segment
}

// AppendTo appends the encoded Hello to b. The number of mappings is 0, because this side
// has no memory that the peer can map (riomap in rsocket(7)).
func (h *Hello) AppendTo(b []byte) []byte {
	flags := byte(flagMappings)
	if h.BigEndian {
		flags |= flagBigEndian
	}
	b = append(b, version, flags)
	b = binary.BigEndian.AppendUint16(b, h.Credits)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, h.Table.Addr)
	b = binary.BigEndian.AppendUint32(b, h.Table.Key)
	b = binary.BigEndian.AppendUint32(b, h.Table.Entries)
	b = binary.BigEndian.AppendUint64(b, h.First.Addr)
	b = binary.BigEndian.AppendUint32(b, h.First.Key)
	return binary.BigEndian.AppendUint32(b, h.First.Length)
}

// DecodeHello decodes the Hello of the peer at the beginning of its private data, and
// returns the rest of the private data. The rest may be padded with zeros. The error
// matches ErrVersion, or ErrProtocol if the Hello has an invalid field.
func DecodeHello(private []byte) (h Hello, rest []byte, err error) {
	switch {
	case len(private) < HelloSize:
		return h, nil, fmt.Errorf("%w: its private data has %d bytes, and not at least %d", ErrVersion, len(private), HelloSize)
	case private[0] != version:
		return h, nil, fmt.Errorf("%w: its private data begins with %d", ErrVersion, private[0])
	}
	h.BigEndian = private[1]&flagBigEndian != 0
	h.Credits = binary.BigEndian.Uint16(private[2:])
	h.Table = Table{
		Addr:    binary.BigEndian.Uint64(private[8:]),
		Key:     binary.BigEndian.Uint32(private[16:]),
		Entries: binary.BigEndian.Uint32(private[20:]),
	}
	h.First = Segment{
		Addr:   binary.BigEndian.Uint64(private[24:]),
		Key:    binary.BigEndian.Uint32(private[32:]),
		Length: binary.BigEndian.Uint32(private[36:]),
	}
	if h.Table.Entries == 0 {
		return h, nil, violation("the table has no segments")
	}
	return h, private[HelloSize:], nil
}

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

// A Kind says what a message means.
type Kind uint8

const (
	// Data means that Message.Value bytes of the stream were written.
	Data Kind = iota
	// Credit means that the receiver of the message may send more. The lower 16 bits of
	// Message.Value are the number of all credits that the receiver has got so far, modulo
	// 2^16. The message may have written a segment to the receiver's table.
	Credit
	// Mapping means that the entry Message.Value of the receiver's table of mapped memory
	// was written.
	Mapping
	// Disconnect means that the sender neither reads nor writes any more.
	Disconnect
	// Keepalive has no effect. A correct peer does not send it.
	Keepalive
	// Shutdown means that the sender writes no more.
	Shutdown
)

// A Message is the immediate data of a WRITE of the protocol.
type Message struct {
	Kind  Kind
	Value uint32 // at most maxValue; zero unless the kind is Data, Credit or Mapping
}

// Values of the upper 3 bits of the immediate data.
const (
	opData    = 0
	opCredit  = 4
	opMapping = 6
	opControl = 7
)

// Values of the lower 29 bits of the immediate data for opControl.
const (
	controlDisconnect = iota
	controlKeepalive
	controlShutdown
)

const (
	opShift  = 29
	maxValue = 1<<opShift - 1
)

// imm returns the immediate data with the given upper 3 and lower 29 bits.
func imm(op, value uint32) uint32 { return op<<opShift | value }

// Imm returns the immediate data of the message.
func (m Message) Imm() uint32 {
	switch m.Kind {
	case Data:
		return imm(opData, m.Value)
	case Credit:
		return imm(opCredit, m.Value)
	case Mapping:
		return imm(opMapping, m.Value)
	case Keepalive:
		return imm(opControl, controlKeepalive)
	case Shutdown:
		return imm(opControl, controlShutdown)
	default:
		return imm(opControl, controlDisconnect)
	}
}

// Decode returns the message with the given immediate data. The error matches
// ErrProtocol. A data message without bytes is an error, because readers would take it
// for the end of the stream.
func Decode(imm uint32) (Message, error) {
	value := imm & maxValue
	switch op := imm >> opShift; op {
	case opData:
		if value == 0 {
			return Message{}, violation("a data message has no bytes")
		}
		return Message{Data, value}, nil
	case opCredit:
		return Message{Credit, value}, nil
	case opMapping:
		return Message{Mapping, value}, nil
	case opControl:
		switch value {
		case controlDisconnect:
			return Message{Kind: Disconnect}, nil
		case controlKeepalive:
			return Message{Kind: Keepalive}, nil
		case controlShutdown:
			return Message{Kind: Shutdown}, nil
		}
		return Message{}, violation("the control message %d is not defined", value)
	default:
		return Message{}, violation("the operation %d is not defined", op)
	}
}

var (
	// ErrProtocol reports that the peer has violated the protocol. The connection must
	// end.
	ErrProtocol = errors.New("the peer has violated the rsocket protocol")
	// ErrVersion reports that the peer has another version of the protocol, or another
	// protocol.
	ErrVersion = fmt.Errorf("the peer does not speak version %d of the rsocket protocol", version)
)

// violation returns an error that matches ErrProtocol.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}
