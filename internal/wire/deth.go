package wire

import "encoding/binary"

// GSIQKey is the Q_Key of all datagrams to and from GSIQPN. Source: IBTA vol. 1, 3.5.3.
const GSIQKey = 0x80010000

// DETHSize is the length of a DETH in bytes.
const DETHSize = 8

// A DETH is the datagram extended transport header. Every datagram has it. Source: IBTA
// vol. 1, 9.3.
//
//	0   Q_Key (32)
//	4   reserved (8) | source QP number (24)
type DETH [DETHSize]byte

// QKey returns the Q_Key. It must be the Q_Key of the receiving queue pair.
func (h *DETH) QKey() uint32 { return binary.BigEndian.Uint32(h[0:]) }

// SrcQP returns the number of the queue pair that sent the datagram. It has 24 bits.
func (h *DETH) SrcQP() uint32 { return uint24(h[5:8]) }

// Set sets all fields.
func (h *DETH) Set(qkey, srcQP uint32) {
	binary.BigEndian.PutUint32(h[0:], qkey)
	h[4] = 0
	putUint24(h[5:8], srcQP)
}
