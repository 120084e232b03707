package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
)

// Write writes b to the stream. It blocks while the peer does not read, until the write
// deadline has passed. The result is the number of bytes that were written. When Write
// returns, the bytes may still be on their way: see Close.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.loop.Lock()
	defer c.loop.Unlock()
	for {
		written, err := c.tryWrite(b[n:])
		n += written
		if !errors.Is(err, ErrWouldBlock) {
			return n, c.opError("write", err)
		}
		c.wait(&c.writable, &c.writeDeadline)
	}
}

// tryWrite is Write without waiting. The error is ErrWouldBlock if the caller must wait.
func (c *Conn) tryWrite(b []byte) (n int, err error) {
	switch {
	case c.state.closed():
		return 0, net.ErrClosed
	case isClosed(c.writeDeadline.wait()):
		return 0, os.ErrDeadlineExceeded
	case c.state.ended() && c.endError != nil:
		return 0, c.endError
	}
	n, err = c.stream.Write(b)
	if c.stream.writing == outOpen && errors.Is(err, ErrClosed) {
		// The connection has failed. OnClose follows and has the reason.
		c.stream.sent.blocked = true
		err = ErrWouldBlock
	}
	c.stream.Flush()
	return n, err
}

// canWrite reports whether tryWrite would not return ErrWouldBlock.
func (c *Conn) canWrite() bool {
	return !c.stream.sent.blocked || c.state.ended() || c.state.closed() || isClosed(c.writable.timeout)
}

// CloseWrite ends the writing direction. The peer reads all bytes that were written, and
// then io.EOF. This side can still read. CloseWrite waits for a blocked Write.
func (c *Conn) CloseWrite() error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.loop.Lock()
	defer c.loop.Unlock()
	if c.state.closed() {
		return c.opError("close", net.ErrClosed)
	}
	err := c.stream.CloseWrite()
	c.stream.Flush()
	c.loop.Changed()
	return c.opError("close", err)
}

// wakeWriter ends the wait of a Write.
func (c *Conn) wakeWriter() { c.loop.Wake(c.writable.Waiter) }

// A copyBuffer is a buffer of ReadFrom or WriteTo.
type copyBuffer [64 << 10]byte

// copyBuffers has buffers as *copyBuffer.
var copyBuffers = sync.Pool{New: func() any { return new(copyBuffer) }}

// ReadFrom writes the bytes of r to the stream, until the end of r or an error. It
// implements io.ReaderFrom, so io.Copy uses it.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	buffer := copyBuffers.Get().(*copyBuffer)
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
