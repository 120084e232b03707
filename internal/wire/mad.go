package wire

import (
	"encoding/binary"
	"errors"
)

// Sizes in bytes of a MAD and of the data in it, and the offset of this data.
const (
	MADSize     = MADDataOffset + MADDataSize
	MADDataSize = 232

	MADDataOffset = 24
)

// A MAD is a management datagram from GSIQPN to GSIQPN with GSIQKey. Its length is always
// MADSize. Other lengths stop the connection management of Linux up to 6.1. Source: IBTA
// vol. 1, 13.4.
//
//	0   base version (8) | class (8) | class version (8) | method (8)
//	4   status (16) | class specific (16)
//	8   transaction id (64)
//	16  attribute id (16) | reserved (16)
//	20  attribute modifier (32)
//	24  data
type MAD [MADSize]byte

// An Attribute is the type of a connection manager message. In other MADs, it is called
// the attribute id.
type Attribute uint16

// Messages of the connection manager. Source: IBTA vol. 1, 16.7.2.
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

// ErrMAD means that a datagram is not a MAD of the connection manager.
var ErrMAD = errors.New("wire: not a MAD of communication management")

// cmHeader begins every MAD of the connection manager: base version 1, class 7, class
// version 2, method Send.
var cmHeader = [4]byte{1, 7, 2, 3}

// DecodeMAD checks the payload of a datagram and returns a pointer into it. After ErrMAD,
// the caller drops the datagram.
func DecodeMAD(payload []byte) (*MAD, error) {
	if len(payload) != MADSize || [4]byte(payload) != cmHeader {
		return nil, ErrMAD
	}
	return (*MAD)(payload), nil
}

// Attribute returns the type of the message. It may be a type without a constant in this
// package.
func (m *MAD) Attribute() Attribute { return Attribute(binary.BigEndian.Uint16(m[16:])) }

// TID returns the transaction id. REP, MRA, REJ and RTU have the transaction id of the
// REQ. A DREP has the transaction id of the DREQ.
func (m *MAD) TID() uint64 { return binary.BigEndian.Uint64(m[8:]) }

// encoding writes the header of a message to m and clears the rest. The returned layout
// writes the fields.
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
