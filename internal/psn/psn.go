// Package psn does arithmetic on the packet and message sequence numbers (PSN, MSN) of
// InfiniBand. They have 24 bits and wrap around (IBTA vol. 1, 9.7.1).
package psn

// mask has ones in the 24 bits of a sequence number.
const mask = 1<<24 - 1

// A Value is a sequence number from 0 to 1<<24 - 1. Values from New and the methods can
// be compared with == and be map keys.
type Value uint32

// New returns the sequence number in the low 24 bits of n.
func New(n uint32) Value { return Value(n & mask) }

// Add returns v + n modulo 1<<24. n may be negative.
func (v Value) Add(n int) Value { return Value(uint32(v)+uint32(n)) & mask }

// Sub returns v - w, from -1<<23 to 1<<23 - 1. The result is positive if v is newer than
// w.
func (v Value) Sub(w Value) int {
	const unused = 32 - 24
	return int(int32((v-w)<<unused) >> unused) // Sign extension from 24 to 32 bits.
}

// Before reports whether v is older than w. Numbers in use must lie in a range smaller
// than 1<<23, because numbers that differ by exactly 1<<23 are before each other.
func (v Value) Before(w Value) bool { return v.Sub(w) < 0 }

// After reports whether v is newer than w.
func (v Value) After(w Value) bool { return v.Sub(w) > 0 }

// In reports whether v is one of n consecutive values. The values begin with the
// parameter first. The result is true if n is 1<<24 or more, and false if n is 0 or less.
func (v Value) In(first Value, n int) bool { return int((v-first)&mask) < n }
