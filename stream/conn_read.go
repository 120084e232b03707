package stream

import (
	"io"
	"net"
	"os"
)

// Read reads bytes of the stream. It blocks until bytes are there, the peer has ended its
// writing direction, or the read deadline has passed. The error at the end is io.EOF.
func (c *Conn) Read(b []byte) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	c.loop.Lock()
	defer c.loop.Unlock()
	for {
		n, err := c.tryRead(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, c.readError(err)
		}
		c.wait(&c.readable, &c.readDeadline)
	}
}

// tryRead is Read without waiting. The result is 0 and nil if the caller must wait.
func (c *Conn) tryRead(b []byte) (n int, err error) {
	switch {
	case c.state.closed():
		return 0, net.ErrClosed
	case isClosed(c.readDeadline.wait()):
		return 0, os.ErrDeadlineExceeded
	case c.state.ended():
		n = copy(b, c.rest)
		c.rest = c.rest[n:]
	default:
		if n = c.stream.Read(b); n > 0 {
			c.stream.Flush()
		}
	}
	if n == 0 {
		err = c.endOfStream()
	}
	return n, err
}

// endOfStream returns the reason why no more bytes can be read, or nil.
func (c *Conn) endOfStream() error {
	switch {
	case len(c.rest) > 0, c.stream.Len() > 0:
		return nil
	case c.stream.Ended():
		return io.EOF
	case !c.state.ended():
		return nil
	case c.endError == nil: // The loop has ended the stream.
		return net.ErrClosed
	}
	return c.endError
}

// canRead reports whether tryRead would return something.
func (c *Conn) canRead() bool {
	return c.stream.Len() > 0 || c.stream.Ended() || c.state.ended() || c.state.closed() || isClosed(c.readable.timeout)
}

// wakeReader ends the wait of a Read.
func (c *Conn) wakeReader() { c.loop.Wake(c.readable.Waiter) }

// WriteTo writes the bytes of the stream to w, until the end of the stream or an error.
// It implements io.WriterTo, so io.Copy uses it. The read deadline applies. Other calls
// of Read may take bytes between two calls of w.Write.
func (c *Conn) WriteTo(w io.Writer) (n int64, err error) {
	buffer := copyBuffers.Get().(*copyBuffer)
	defer copyBuffers.Put(buffer)
	for {
		size, err := c.Read(buffer[:])
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		written, err := w.Write(buffer[:size])
		n += int64(max(0, min(written, size)))
		if err == nil && written != size {
			err = io.ErrShortWrite
		}
		if err != nil {
			return n, err
		}
	}
}
