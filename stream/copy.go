package stream

import (
	"io"
	"sync"
)

// WriteTo writes the bytes of the stream to w, until the end of the stream or an error.
// It implements io.WriterTo, so io.Copy uses it. The bytes are passed to w from the
// memory into which the peer has written them, without a copy. The read deadline applies.
func (c *Conn) WriteTo(w io.Writer) (n int64, err error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		b, err := c.lend()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, c.opError("read", err)
		}
		written, err := w.Write(b)
		c.endLoan(max(0, min(written, len(b))))
		n += int64(written)
		if err == nil && written < len(b) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return n, err
		}
	}
}

// lend waits for bytes and returns them. They stay valid until endLoan.
func (c *Conn) lend() ([]byte, error) {
	c.loop.Lock()
	defer c.loop.Unlock()
	for {
		if _, err := c.tryRead(nil); err != nil {
			return nil, err
		}
		switch {
		case len(c.rest) > 0:
			return c.rest, nil
		case !c.state.ended() && c.stream.Len() > 0:
			c.lent = true
			return c.stream.Bytes(), nil
		}
		c.wait(&c.readable, &c.readDeadline)
	}
}

// endLoan ends the use of the bytes that lend has returned. The first n bytes were used,
// and endLoan removes them from the stream.
func (c *Conn) endLoan(n int) {
	c.loop.Lock()
	defer c.loop.Unlock()
	lent := c.lent
	c.lent = false
	if !c.state.ended() {
		c.stream.Discard(n)
		c.stream.Flush()
		return
	}
	c.rest = c.rest[min(n, len(c.rest)):]
	if lent && c.stream.keepMemory {
		c.stream.release()
	}
}

// copyBuffers has the buffers of ReadFrom.
var copyBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// ReadFrom writes the bytes of r to the stream, until the end of r or an error. It
// implements io.ReaderFrom, so io.Copy uses it.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	buffer := copyBuffers.Get().(*[64 << 10]byte)
	defer copyBuffers.Put(buffer)
	for {
		size, readErr := r.Read(buffer[:])
		if size > 0 {
			written, err := c.Write(buffer[:size])
			n += int64(written)
			if err != nil {
				return n, err
			}
		}
		switch readErr {
		case nil:
		case io.EOF:
			return n, nil
		default:
			return n, readErr
		}
	}
}
