package gnetrdma

import "github.com/panjf2000/gnet/v2/pkg/pool/byteslice"

// An input has the bytes of a connection that the handler has not read. They lie in one
// piece, so that Peek never copies.
type input struct {
	bytes []byte
	// memory is from the pool of gnet, and has the bytes. It is nil if there are no
	// bytes, or if they are borrowed.
	memory []byte
}

// len returns the number of bytes.
func (in *input) len() int { return len(in.bytes) }

// borrow makes b the bytes, until keep. There are no other bytes.
func (in *input) borrow(b []byte) { in.bytes = b }

// keep copies borrowed bytes to memory of the input. If there are no bytes, it frees the
// memory.
func (in *input) keep() {
	switch {
	case len(in.bytes) == 0:
		in.free()
	case in.memory == nil:
		in.move(len(in.bytes))
	}
}

// grow appends n bytes, and returns them. The caller overwrites them. There are
// other bytes, which are not borrowed.
func (in *input) grow(n int) []byte {
	size := len(in.bytes)
	if cap(in.bytes)-size < n {
		in.move(max(size+n, 2*size)) // At least twice as much, so that moving is rare.
	}
	in.bytes = in.bytes[:size+n]
	return in.bytes[size:]
}

// move copies the bytes to new memory of at least the given size.
func (in *input) move(size int) {
	memory := byteslice.Get(size)
	n := copy(memory, in.bytes)
	in.free()
	in.memory, in.bytes = memory, memory[:n]
}

// remove removes the first n bytes.
func (in *input) remove(n int) { in.bytes = in.bytes[n:] }

// free removes all bytes, and gives the memory back to the pool.
func (in *input) free() {
	if in.memory != nil {
		byteslice.Put(in.memory)
	}
	in.memory, in.bytes = nil, nil
}
