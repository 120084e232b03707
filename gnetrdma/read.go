package gnetrdma

import (
	"io"

	"github.com/panjf2000/gnet/v2/pkg/pool/byteslice"
)

// receive passes bytes that have arrived to the handler, and then the end of the stream.
func (c *conn) receive() {
	for c.state == connOpen && c.stream.Len() > 0 {
		if c.outputIsLong() {
			return // OnWritable calls receive again.
		}
		if c.state != connOpen {
			return // outputIsLong has closed the connection.
		}
		n := min(c.stream.Len(), len(c.loop.buffer))
		if c.input.len() > 0 {
			c.stream.Read(c.input.grow(n))
		} else {
			c.stream.Read(c.loop.buffer[:n])
			c.input.borrow(c.loop.buffer[:n])
		}
		_ = c.traffic() // traffic has done what OnTraffic asked for.
	}
	if c.state == connOpen && c.stream.Ended() {
		_ = c.close(io.EOF)
	}
}

// outputIsLong reports whether so much output waits for the peer that the handler gets no
// more input.
func (c *conn) outputIsLong() bool {
	limit := c.engine.cfg.MaxOutbound / 4
	if c.output.len() > limit {
		// The handler may have called ReadFrom without Flush. After an error no output is
		// left, and the connection is closed or OnClose follows.
		_ = c.flush()
	}
	return c.output.len() > limit
}

// traffic calls OnTraffic, and keeps the bytes that the handler did not read. The result
// is that of act.
func (c *conn) traffic() error {
	err := c.act(c.engine.handler.OnTraffic(c))
	if c.state != connOpen {
		return err
	}
	if c.input.len() > c.engine.cfg.MaxInbound {
		return c.abort(ErrInboundFull)
	}
	c.input.keep()
	return err
}

// InboundBuffered returns how many bytes the handler can read.
func (c *conn) InboundBuffered() int { return c.input.len() }

// Read copies bytes to p and removes them. If there are none and p is not empty, the
// error is io.ErrShortBuffer.
func (c *conn) Read(p []byte) (int, error) {
	n := copy(p, c.input.bytes)
	c.input.remove(n)
	if n == 0 && len(p) > 0 {
		return 0, io.ErrShortBuffer
	}
	return n, nil
}

// Next returns the next n bytes and removes them. If n is zero or less, it returns all.
// If there are fewer, the error is io.ErrShortBuffer. The slice is valid until the
// callback returns.
func (c *conn) Next(n int) ([]byte, error) {
	b, err := c.Peek(n)
	c.input.remove(len(b))
	return b, err
}

// Peek is Next, but does not remove the bytes.
func (c *conn) Peek(n int) ([]byte, error) {
	switch {
	case n > c.input.len():
		return nil, io.ErrShortBuffer
	case n <= 0:
		n = c.input.len()
	}
	return c.input.bytes[:n:n], nil
}

// Discard removes n bytes, or all if n is zero or less, or more than there are. It
// returns how many it has removed.
func (c *conn) Discard(n int) (int, error) {
	if n <= 0 {
		n = c.input.len()
	}
	n = min(n, c.input.len())
	c.input.remove(n)
	return n, nil
}

// WriteTo writes all bytes to w and removes those that w has taken. If w takes fewer
// bytes and returns no error, the error is io.ErrShortWrite.
func (c *conn) WriteTo(w io.Writer) (int64, error) {
	b := c.input.bytes
	n, err := w.Write(b)
	n = max(0, min(n, len(b)))
	c.input.remove(min(n, c.input.len())) // The Writer may have closed the connection, which removes the bytes.
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return int64(n), err
}

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
