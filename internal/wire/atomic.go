package wire

import "encoding/binary"

// Lengths in bytes of the headers of atomic operations.
const (
	AtomicETHSize    = 28
	AtomicAckETHSize = 8
)

// An AtomicETH is the header of an atomic request. Source: IBTA vol. 1, 9.3.
//
//	0   virtual address (64)
//	8   R_Key (32)
//	12  value to swap in, or to add (64)
//	20  value to compare with, or 0 (64)
type AtomicETH [AtomicETHSize]byte

// Addr returns the virtual address of the eight bytes to change. It is a multiple of
// eight.
func (h *AtomicETH) Addr() uint64 { return binary.BigEndian.Uint64(h[0:]) }

// RKey returns the key of the memory region.
func (h *AtomicETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// Compare returns the value to compare with. A fetch-and-add ignores it.
func (h *AtomicETH) Compare() uint64 { return binary.BigEndian.Uint64(h[20:]) }

// Set sets all fields.
func (h *AtomicETH) Set(addr uint64, rkey uint32, swapAdd, compare uint64) {
	binary.BigEndian.PutUint64(h[0:], addr)
	binary.BigEndian.PutUint32(h[8:], rkey)
	binary.BigEndian.PutUint64(h[12:], swapAdd)
	binary.BigEndian.PutUint64(h[20:], compare)
}

// An AtomicAckETH is the header of the response to an atomic request. It follows the
// AETH. Source: IBTA vol. 1, 9.3.
type AtomicAckETH [AtomicAckETHSize]byte

// Original returns the value that the memory had before the operation.
func (h *AtomicAckETH) Original() uint64 { return binary.BigEndian.Uint64(h[:]) }

// Set sets all fields.
func (h *AtomicAckETH) Set(original uint64) { binary.BigEndian.PutUint64(h[:], original) }
