package gnetrdma

import "github.com/panjf2000/gnet/v2/pkg/pool/byteslice"

// An input has the bytes of a connection that the handler has not read. They lie in one
// piece, so that Peek never copies.
type input struct {
	state  inputState
	bytes  []byte
	memory []byte // from the pool of gnet; nil except in the state inputOwned
}

// An inputState says in which memory the bytes of an input are.
type inputState uint8

const (
	// inputEmpty: there are no bytes. This is the state of a new input. The method borrow
	// leads to inputBorrowed.
	inputEmpty inputState = iota
	// inputBorrowed: the bytes are in the memory that was passed to borrow, which is used
	// for another connection after OnTraffic. The method remove may have removed all of
	// them. The method keep leads to inputOwned if bytes are left, and else to inputEmpty.
	inputBorrowed
	// inputOwned: the bytes are in the field memory. The method remove may have removed all
	// of them. Then keep leads to inputEmpty.
	inputOwned
)

// len returns the number of bytes.
func (in *input) len() int { return len(in.bytes) }

// borrow makes b the bytes, until keep. The state is inputEmpty.
func (in *input) borrow(b []byte) { in.state, in.bytes = inputBorrowed, b }

// keep copies borrowed bytes to memory of the input. If there are no bytes, it frees the
// memory.
func (in *input) keep() {
	switch {
	case len(in.bytes) == 0:
		in.free()
	case in.state == inputBorrowed:
		in.move(len(in.bytes))
	}
}

// grow appends n bytes, and returns them. The caller overwrites them. The state is
// inputOwned.
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
	in.state, in.memory, in.bytes = inputOwned, memory, memory[:n]
}

// remove removes the first n bytes.
func (in *input) remove(n int) { in.bytes = in.bytes[n:] }

// free removes all bytes, and gives the memory back to the pool. It enters inputEmpty.
func (in *input) free() {
	if in.state == inputOwned {
		byteslice.Put(in.memory)
	}
	*in = input{}
}
