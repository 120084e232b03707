package wire

import (
	"encoding/binary"
	"errors"
)

// Lengths in bytes of a management datagram and of its data, and the offset of the
// data.
const (
	MADSize     = MADDataOffset + MADDataSize
	MADDataSize = 232

	MADDataOffset = 24
)

// A MAD is a management datagram. It is the payload of a datagram from GSIQPN to GSIQPN
// with GSIQKey. Source: IBTA vol. 1, 13.4. A MAD always has MADSize bytes. A sender must
// never send a datagram of another length to GSIQPN, because it would stop the connection
// management of Linux kernels up to 6.1.
//
//	0   base version (8) | class (8) | class version (8) | method (8)
//	4   status (16) | class specific (16)
//	8   transaction id (64)
//	16  attribute id (16) | reserved (16)
//	20  attribute modifier (32)
//	24  data
type MAD [MADSize]byte

// An Attribute is the attribute id of a MAD. In communication management it is the type
// of the message.
type Attribute uint16

// Attributes of communication management (IBTA vol. 1, 16.7.2). The attributes 0x19 and
// 0x1a, which load an alternate path, are not used on RoCE.
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

// cmHeader has the first four bytes of all MADs of communication management: base version
// 1, class 7, class version 2, method Send. The array is never changed.
var cmHeader = [4]byte{1, 7, 2, 3}

// DecodeMAD checks the payload of a datagram and returns a view of it as a MAD of
// communication management. If the error is ErrMAD, the caller drops the datagram without
// an answer.
func DecodeMAD(payload []byte) (*MAD, error) {
	if len(payload) != MADSize || [4]byte(payload) != cmHeader {
		return nil, ErrMAD
	}
	return (*MAD)(payload), nil
}

// Attribute returns the type of the message. The result may be a type for which this
// package has no constant.
func (m *MAD) Attribute() Attribute { return Attribute(binary.BigEndian.Uint16(m[16:])) }

// TID returns the transaction id. All messages that answer a REQ have the transaction id
// of the REQ: REP, MRA, REJ and RTU. A DREP has the transaction id of its DREQ.
func (m *MAD) TID() uint64 { return binary.BigEndian.Uint64(m[8:]) }

// encoding writes the header of a message to m and sets all other bytes to zero. It
// returns a layout that writes the fields of the message.
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
