package wire

import "encoding/binary"

// Lengths in bytes of the headers that come directly before the payload.
const (
	ImmDtSize = 4
	IETHSize  = 4
)

// An ImmDt is the immediate data of a SEND or WRITE. Source: IBTA vol. 1, 9.3.
type ImmDt [ImmDtSize]byte

// Value returns the data as a number.
func (h *ImmDt) Value() uint32 { return binary.BigEndian.Uint32(h[:]) }

// Set sets the data.
func (h *ImmDt) Set(value uint32) { binary.BigEndian.PutUint32(h[:], value) }

// An IETH is the header of a SEND that invalidates a memory region. Source: IBTA vol. 1,
// 9.3.
type IETH [IETHSize]byte

// RKey returns the key of the memory region.
func (h *IETH) RKey() uint32 { return binary.BigEndian.Uint32(h[:]) }

// Set sets the key.
func (h *IETH) Set(rkey uint32) { binary.BigEndian.PutUint32(h[:], rkey) }
