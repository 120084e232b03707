// Package slots provides a table of values. Put returns a handle for a value. After
// Remove, the handle is invalid, even if another value uses the same slot.
package slots

import (
	"iter"
	"math"
)

// A Handle identifies a value from Put until Remove. Zero is never valid. Get and Remove
// accept any number.
type Handle uint64

// Index returns the index of the slot.
func (h Handle) Index() int { return int(uint32(h)) }

// Generation returns the generation of the slot.
func (h Handle) Generation() uint32 { return uint32(h >> 32) }

func newHandle(index int, gen uint32) Handle {
	return Handle(gen)<<32 | Handle(uint32(index))
}

// A Table holds values of type T. The zero value is an empty table. Only one goroutine at
// a time may use a Table.
//
// Put uses the slot that was freed last, because it is most likely in the processor's
// cache. The handle of a removed value stays invalid for 1<<32 - 2 uses of the slot.
type Table[T any] struct {
	slots []slot[T]
	free  uint32 // index of the first free slot plus one; 0 means none
	live  int
}

type slot[T any] struct {
	// Generation of the value in the slot. If the slot is free, it is the generation of
	// the next value. Never 0.
	gen uint32
	// If the slot is free: index of the next free slot plus one; 0 means none. If the
	// slot is in use: 0.
	next  uint32
	used  bool
	value T
}

// Put stores v and returns its handle. It allocates memory only if the table has more
// values than ever before. If the table holds 1<<32 - 1 values, Put panics.
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

// Get returns a pointer to the value of h. If h is not valid, ok is false. The pointer is
// valid until Put or Remove.
func (t *Table[T]) Get(h Handle) (*T, bool) {
	s := t.find(h)
	if s == nil {
		return nil, false
	}
	return &s.value, true
}

// At returns the value in the slot with this index. If the slot is free or does not
// exist, At returns the zero value. The slot may have another value than before.
func (t *Table[T]) At(index int) (v T) {
	if uint(index) < uint(len(t.slots)) {
		v = t.slots[index].value
	}
	return v
}

// Remove removes and returns the value of h. If h is not valid, ok is false.
func (t *Table[T]) Remove(h Handle) (v T, ok bool) {
	if t.find(h) == nil {
		return v, false
	}
	return t.RemoveAt(h.Index()), true
}

// RemoveAt removes and returns the value in the slot with this index. If there is none,
// RemoveAt panics.
func (t *Table[T]) RemoveAt(index int) T {
	s := &t.slots[index]
	if !s.used {
		panic("slots: the slot is free")
	}
	var zero T
	v := s.value
	// This lets the garbage collector free the value.
	s.used, s.value = false, zero
	s.gen = nextGen(s.gen)
	s.next, t.free = t.free, uint32(index)+1
	t.live--
	return v
}

// Len returns the number of values in the table.
func (t *Table[T]) Len() int { return t.live }

// All iterates over the values in the order of their slots. The body of the loop may call
// Put and Remove. The loop may visit a value that its body has put.
func (t *Table[T]) All() iter.Seq2[Handle, *T] {
	return func(yield func(Handle, *T) bool) {
		for i := range len(t.slots) {
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

// grow adds one free slot.
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
