package wire

import (
	"encoding/binary"
	"errors"
)

// Sizes in bytes of a management datagram and of its data, and the data's offset.
const (
	MADSize     = MADDataOffset + MADDataSize
	MADDataSize = 232

	MADDataOffset = 24
)

// A MAD is a management datagram from GSIQPN to GSIQPN with GSIQKey. Its length is
// always MADSize, because other lengths stop the connection management of Linux up to
// 6.1. Source: IBTA vol. 1, 13.4.
//
//	0   base version (8) | class (8) | class version (8) | method (8)
//	4   status (16) | class specific (16)
//	8   transaction id (64)
//	16  attribute id (16) | reserved (16)
//	20  attribute modifier (32)
//	24  data
type MAD [MADSize]byte

// An Attribute is the attribute id of a MAD. In communication management it is the
// message type.
type Attribute uint16

// Attributes of communication management (IBTA vol. 1, 16.7.2).
const (
	AttrREQ     Attribute = 0x10
	AttrMRA     Attribute = 0x11
	AttrREJ     Attribute = 0x12
	AttrREP     Attribute = 0x13
	AttrRTU     Attribute = 0x14
	AttrDREQ    Attribute = 0x15
	AttrDREP    Attribute = 0x16
	AttrSIDRREQ Attribute = 0x17
	AttrSIDRREP Attribute = 0x18
)

// ErrMAD means that a datagram is not a MAD of communication management.
var ErrMAD = errors.New("wire: not a MAD of communication management")

// cmHeader has the first four bytes of a communication management MAD: base version 1,
// class 7, class version 2, method Send.
var cmHeader = [4]byte{1, 7, 2, 3}

// DecodeMAD checks the payload of a datagram and returns a view of it. After ErrMAD the
// caller drops the datagram.
func DecodeMAD(payload []byte) (*MAD, error) {
	if len(payload) != MADSize || [4]byte(payload) != cmHeader {
		return nil, ErrMAD
	}
	return (*MAD)(payload), nil
}

// Attribute returns the type of the message. This package may have no constant for the
// type.
func (m *MAD) Attribute() Attribute { return Attribute(binary.BigEndian.Uint16(m[16:])) }

// TID returns the transaction id. REP, MRA, REJ and RTU have that of the REQ. A DREP has
// that of the DREQ.
func (m *MAD) TID() uint64 { return binary.BigEndian.Uint64(m[8:]) }

// encoding writes the header of a message to m and clears the other bytes. It returns a
// layout for the fields.
func (m *MAD) encoding(attr Attribute, tid uint64) layout {
	*m = MAD{}
	copy(m[:], cmHeader[:])
	binary.BigEndian.PutUint64(m[8:], tid)
	binary.BigEndian.PutUint16(m[16:], uint16(attr))
	return layout{data: m.data(), toBytes: true}
}

// decoding returns a layout that reads the fields of the message in m.
func (m *MAD) decoding() layout { return layout{data: m.data()} }

func (m *MAD) data() *[MADDataSize]byte { return (*[MADDataSize]byte)(m[MADDataOffset:]) }
