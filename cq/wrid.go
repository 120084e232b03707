package cq

import "github.com/rdmaloop/rdmaloop/internal/slots"

// IDs assigns work-request ids and finds the value of an id when it comes back in WC.ID.
// An id consists of an index and a generation. A late or duplicate completion therefore
// finds nothing, even if the index is in use again. Zero is never an id. The zero value
// of IDs is ready for use. One goroutine owns it.
type IDs[T any] struct {
	table slots.Table[T]
}

// Put stores v and returns its new id. It allocates only if more values are stored than
// at any time before.
func (s *IDs[T]) Put(v T) uint64 { return uint64(s.table.Put(v)) }

// Get returns the value of id, or false if the id is not in use. The pointer is valid
// until the next Put or Take.
func (s *IDs[T]) Get(id uint64) (*T, bool) { return s.table.Get(slots.Handle(id)) }

// Take removes id and returns its value, or false if the id is not in use.
func (s *IDs[T]) Take(id uint64) (T, bool) { return s.table.Remove(slots.Handle(id)) }

// Len returns the number of ids in use.
func (s *IDs[T]) Len() int { return s.table.Len() }
