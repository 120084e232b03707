package wire

import (
	"encoding/binary"
	"errors"
)

// Lengths in bytes of a management datagram: a header, and data.
const (
	MADSize     = MADDataOffset + MADDataSize
	MADDataSize = 232

	MADDataOffset = 24
)

// A MAD is a management datagram, which is the payload of a datagram from
// GSIQPN to GSIQPN with GSIQKey. Never send one of another length: to a kernel
// that is as old as 6.1 it is the end of its connection management. Source: IBTA
// vol. 1, 13.4.
//
//	0   base version (8) | class (8) | class version (8) | method (8)
//	4   status (16) | for the class (16)
//	8   transaction id (64)
//	16  attribute id (16) | reserved (16)
//	20  attribute modifier (32)
//	24  data
type MAD [MADSize]byte

// An Attribute is what a MAD is about: here, which message of the communication
// manager it is.
type Attribute uint16

// Attributes of communication management (IBTA vol. 1, 16.7.2). Load alternate
// path, 0x19 and 0x1a, does not occur on RoCE.
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

// ErrMAD: not a management datagram of communication management.
var ErrMAD = errors.New("wire: not a MAD of communication management")

// cmHeader is what all such MADs begin with: base version 1, class 7, class
// version 2, method Send, in both directions.
var cmHeader = [4]byte{1, 7, 2, 3}

// DecodeMAD returns the payload of a datagram as a MAD of communication
// management, a view into the same bytes; or ErrMAD, on which it is to be dropped
// without an answer.
func DecodeMAD(payload []byte) (*MAD, error) {
	if len(payload) != MADSize || [4]byte(payload) != cmHeader {
		return nil, ErrMAD
	}
	return (*MAD)(payload), nil
}

// Attribute says which message it is. Others than those listed may come.
func (m *MAD) Attribute() Attribute { return Attribute(binary.BigEndian.Uint16(m[16:])) }

// TID is the transaction id. An answer has that of the request: REP, MRA, REJ
// and RTU that of the REQ, DREP that of the DREQ.
func (m *MAD) TID() uint64 { return binary.BigEndian.Uint64(m[8:]) }

// writing empties m but for its header, and returns the layout to write the
// rest with.
func (m *MAD) writing(attr Attribute, tid uint64) layout {
	*m = MAD{}
	copy(m[:], cmHeader[:])
	binary.BigEndian.PutUint64(m[8:], tid)
	binary.BigEndian.PutUint16(m[16:], uint16(attr))
	return layout{data: m.data(), write: true}
}

func (m *MAD) reading() layout { return layout{data: m.data()} }

func (m *MAD) data() *[MADDataSize]byte { return (*[MADDataSize]byte)(m[MADDataOffset:]) }
