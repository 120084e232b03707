// Package slots is a table of values reached by handles that go stale: each
// handle is an index plus the generation of the slot, so what comes late for a
// value that was removed never finds the value that took its place.
package slots

import (
	"iter"
	"math"
)

// A Handle names one value from Put until Remove. The low 32 bits are the index
// of the slot, the high 32 bits its generation. Zero is never valid. Any number
// may be looked up: one that names nothing is refused.
type Handle uint64

func newHandle(index int, gen uint32) Handle {
	return Handle(gen)<<32 | Handle(uint32(index))
}

// A Table holds values of type T. The zero value is an empty table. One
// goroutine owns a table; only it may call.
//
// A freed slot is the next to be used, because it is the one still in the
// cache. Each use has the next generation. Generations wrap around and leave
// out zero: a removed handle stays invalid for the 1<<32 - 2 next uses of its slot.
type Table[T any] struct {
	slots []slot[T]
	free  uint32 // 1 + index of the first free slot; 0: none
	live  int
}

type slot[T any] struct {
	gen   uint32 // of the value that is here, or else of the next one; never 0
	next  uint32 // 1 + index of the free slot after this one; 0: none
	used  bool
	value T
}

// Put stores v and returns its handle. It allocates only when more values are
// held than ever before. The limit is 1<<32 - 1 values.
func (t *Table[T]) Put(v T) Handle {
	if t.free == 0 {
		t.grow()
	}
	i := int(t.free - 1)
	s := &t.slots[i]
	t.free, s.next = s.next, 0
	s.used, s.value = true, v
	t.live++
	return newHandle(i, s.gen)
}

// Get returns the value that h names, and false when there is none. The pointer
// is valid until the next Put or Remove.
func (t *Table[T]) Get(h Handle) (*T, bool) {
	s := t.find(h)
	if s == nil {
		return nil, false
	}
	return &s.value, true
}

// Remove takes out the value that h names and returns it, and false when there
// is none.
func (t *Table[T]) Remove(h Handle) (T, bool) {
	var zero T
	s := t.find(h)
	if s == nil {
		return zero, false
	}
	v := s.value
	s.used, s.value = false, zero // let go of what the value pointed to
	s.gen = nextGen(s.gen)
	s.next, t.free = t.free, uint32(h)+1
	t.live--
	return v, true
}

// Len returns the number of values held.
func (t *Table[T]) Len() int { return t.live }

// All iterates over the values in the order of their slots. The body may Put
// and Remove; a value put meanwhile may or may not be seen.
func (t *Table[T]) All() iter.Seq2[Handle, *T] {
	return func(yield func(Handle, *T) bool) {
		for i := 0; i < len(t.slots); i++ {
			s := &t.slots[i]
			if s.used && !yield(newHandle(i, s.gen), &s.value) {
				return
			}
		}
	}
}

func (t *Table[T]) find(h Handle) *slot[T] {
	i, gen := uint64(uint32(h)), uint32(h>>32)
	if i >= uint64(len(t.slots)) {
		return nil
	}
	if s := &t.slots[i]; s.used && s.gen == gen {
		return s
	}
	return nil
}

// grow adds one slot and makes it the first free one.
func (t *Table[T]) grow() {
	if uint64(len(t.slots)) == math.MaxUint32 {
		panic("slots: the table is full")
	}
	t.slots = append(t.slots, slot[T]{gen: 1})
	t.free = uint32(len(t.slots))
}

func nextGen(gen uint32) uint32 {
	if gen == math.MaxUint32 {
		return 1
	}
	return gen + 1
}
