package wire

import "encoding/binary"

// RETHSize is the length of a RETH in bytes.
const RETHSize = 16

// A RETH is the RDMA extended transport header: which memory of the responder a
// WRITE or READ is about. Source: IBTA vol. 1, 9.3.
//
//	0   virtual address (64)
//	8   R_Key (32)
//	12  DMA length (32)
type RETH [RETHSize]byte

// Addr is the virtual address of the first byte.
func (h *RETH) Addr() uint64 { return binary.BigEndian.Uint64(h[0:]) }

// RKey is the key that gives access.
func (h *RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// Length is the length in bytes of the whole message, or of what is left of it
// where a READ is asked for again from the middle on.
func (h *RETH) Length() uint32 { return binary.BigEndian.Uint32(h[12:]) }

// Set fills the header.
func (h *RETH) Set(addr uint64, rkey, length uint32) {
	binary.BigEndian.PutUint64(h[0:], addr)
	binary.BigEndian.PutUint32(h[8:], rkey)
	binary.BigEndian.PutUint32(h[12:], length)
}
