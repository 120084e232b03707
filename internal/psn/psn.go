// Package psn does arithmetic on sequence numbers of InfiniBand: those of packets (PSN)
// and of messages (MSN). They have 24 bits and wrap around. Source: IBTA vol. 1, 9.7.1.
package psn

const mask = 1<<24 - 1

// A Value is a sequence number from 0 to 1<<24 - 1. Values can be compared with == and
// can be map keys.
type Value uint32

// New returns the sequence number in the low 24 bits of n.
func New(n uint32) Value { return Value(n & mask) }

// Add returns v + n modulo 1<<24. The number n may be negative.
func (v Value) Add(n int) Value { return Value(uint32(v)+uint32(n)) & mask }

// Sub returns v - w. The result is positive if v is newer than w. It lies between -1<<23
// and 1<<23 - 1.
func (v Value) Sub(w Value) int {
	const unused = 32 - 24
	return int(int32((v-w)<<unused) >> unused) // sign extension from 24 to 32 bits
}

// Before reports whether v is older than w. All numbers in use must lie in a range
// smaller than 1<<23. Numbers that differ by exactly 1<<23 would be before each other.
func (v Value) Before(w Value) bool { return v.Sub(w) < 0 }

// After reports whether v is newer than w.
func (v Value) After(w Value) bool { return v.Sub(w) > 0 }

// In reports whether v is one of n consecutive values, which begin with the parameter
// first. If n is 1<<24 or more, the result is true. If n is 0 or less, the result is
// false.
func (v Value) In(first Value, n int) bool { return int((v-first)&mask) < n }
