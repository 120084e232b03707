package cq

import "github.com/rdmaloop/rdmaloop/internal/slots"

// IDs hands out work-request ids, and finds what an id stands for when it comes
// back in WC.ID. An id is an index plus a generation: a completion that comes
// late, or twice, finds nothing instead of the request that now has the place.
// Zero is never an id. The zero value is ready. One goroutine owns it.
type IDs[T any] struct {
	table slots.Table[T]
}

// Put stores v under a new id. It allocates only when more are held than ever
// before.
func (s *IDs[T]) Put(v T) uint64 { return uint64(s.table.Put(v)) }

// Get finds what id stands for. The pointer is valid until the next Put or
// Take.
func (s *IDs[T]) Get(id uint64) (*T, bool) { return s.table.Get(slots.Handle(id)) }

// Take ends the id and returns what it stood for.
func (s *IDs[T]) Take(id uint64) (T, bool) { return s.table.Remove(slots.Handle(id)) }

// Len is how many ids are in use.
func (s *IDs[T]) Len() int { return s.table.Len() }
