package wire

import "encoding/binary"

// RETHSize is the length of a RETH in bytes.
const RETHSize = 16

// A RETH is the RDMA extended transport header. It says which memory of the responder a
// WRITE or READ uses. Source: IBTA vol. 1, 9.3.
//
//	0   virtual address (64)
//	8   R_Key (32)
//	12  DMA length (32)
type RETH [RETHSize]byte

// Addr returns the virtual address of the first byte.
func (h *RETH) Addr() uint64 { return binary.BigEndian.Uint64(h[0:]) }

// RKey returns the key of the memory region.
func (h *RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// Length returns the length of the message in bytes. If only a part of a READ is
// repeated, it is the length of this part.
func (h *RETH) Length() uint32 { return binary.BigEndian.Uint32(h[12:]) }

// Set sets all fields.
func (h *RETH) Set(addr uint64, rkey, length uint32) {
	binary.BigEndian.PutUint64(h[0:], addr)
	binary.BigEndian.PutUint32(h[8:], rkey)
	binary.BigEndian.PutUint32(h[12:], length)
}
