// Package psn does arithmetic on the sequence numbers of the InfiniBand
// transport, which have 24 bits and wrap around: packet sequence numbers (PSN)
// and message sequence numbers (MSN). Source: IBTA vol. 1, 9.7.1.
package psn

// mask has the bits of a sequence number.
const mask = 1<<24 - 1

// A Value is a sequence number: 0 to 1<<24 - 1, and on to 0 again. Values made
// with New, and by the methods from such, are in that range, and may be compared
// with == and used as keys.
type Value uint32

// New is the sequence number in the low 24 bits of n.
func New(n uint32) Value { return Value(n & mask) }

// Add is v moved on by n steps, or back where n is negative.
func (v Value) Add(n int) Value { return Value(uint32(v)+uint32(n)) & mask }

// Sub is the number of steps from w to v by the shorter way round: positive
// where v is newer, negative where it is older. Half the circle counts as older:
// the result is from -1<<23 to 1<<23 - 1.
func (v Value) Sub(w Value) int {
	const unused = 32 - 24
	return int(int32((v-w)<<unused) >> unused) // the sign bit of 24 becomes that of 32
}

// Before reports whether v is older than w. Of two that are half the circle
// apart each is before the other: a window must be smaller than that.
func (v Value) Before(w Value) bool { return v.Sub(w) < 0 }

// After reports whether v is newer than w.
func (v Value) After(w Value) bool { return v.Sub(w) > 0 }

// In reports whether v is one of the n values from first on. An n of more than
// 1<<24 is all of them, one of 0 or less is none.
func (v Value) In(first Value, n int) bool { return int((v-first)&mask) < n }
