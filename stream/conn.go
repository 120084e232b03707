package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/stream/internal/turns"
)

// A Conn is a net.Conn on a stream. Any goroutine may call its methods, also at the same
// time. Errors of its methods are a *net.OpError, except io.EOF and the errors of the
// io.Reader of ReadFrom and the io.Writer of WriteTo. They match what the errors of
// package net match: os.ErrDeadlineExceeded after a deadline, net.ErrClosed after Close,
// syscall.EPIPE if the peer has closed, and syscall.ECONNRESET if the connection has
// failed.
type Conn struct {
	network *Network
	loop    *turns.Loop

	readMu, writeMu             sync.Mutex // held during calls of Read and Write
	readDeadline, writeDeadline deadline

	// Only the owner of the loop uses the fields below.
	stream   *Stream       // nil in the state connOpening
	opened   *turns.Waiter // woken when the connection is open or has failed
	readable waiter
	writable waiter
	closed   *turns.Waiter // woken when the stream has ended
	state    connState
	endError error  // error of OnClose or OnDialError
	rest     []byte // bytes that had arrived and were not read when the stream ended
	spin     spinTime
}

var _ net.Conn = (*Conn)(nil)

// A connState says what has happened to a Conn.
type connState uint8

const (
	// connOpening: the stream is being opened. A Conn begins in this state.
	connOpening connState = iota
	// connFailed: the stream was not opened, or the Network was closed. The field endError
	// says why. Nobody uses the Conn any more.
	connFailed
	// connOpen: the stream is open, and Close was not called.
	connOpen
	// connEnded: the stream has ended without a call of Close. The field endError has the
	// error of OnClose, and rest has the bytes that can still be read.
	connEnded
	// connClosing: Close was called in the state connOpen, and waits until the stream has
	// ended.
	connClosing
	// connClosed: Close was called, and the stream has ended.
	connClosed
)

// ended reports whether the stream has ended.
func (s connState) ended() bool { return s == connEnded || s == connClosed }

// closed reports whether Close was called.
func (s connState) closed() bool { return s >= connClosing }

func newConn(n *Network) *Conn {
	c := &Conn{
		state: connOpening, network: n, loop: n.loop,
		opened: turns.NewWaiter(), closed: turns.NewWaiter(), spin: spinTime{n.cfg.SpinBudget, n.cfg.SpinBudget},
	}
	c.readable = waiter{Waiter: turns.NewWaiter(), ready: c.canRead}
	c.writable = waiter{Waiter: turns.NewWaiter(), ready: c.canWrite}
	c.readDeadline = newDeadline(func() { c.recheck(&c.readable) })
	c.writeDeadline = newDeadline(func() { c.recheck(&c.writable) })
	return c
}

// open is called when the stream is open. If the Network is closed, open closes the stream
// and returns false.
func (c *Conn) open(s *Stream) bool {
	c.stream = s
	if c.network.add(c) {
		c.state = connOpen
		return true
	}
	c.state, c.endError = connFailed, net.ErrClosed
	_ = s.Close() // It fails if the stream has ended.
	s.Flush()
	c.loop.Changed()
	return false
}

// dialFailed is called when the stream could not be opened.
func (c *Conn) dialFailed(err error) {
	c.state, c.endError = connFailed, err
	c.loop.Wake(c.opened)
}

// end is called when the stream has ended.
func (c *Conn) end(err error) {
	switch c.state {
	case connOpen:
		c.endError = err
		c.rest = make([]byte, c.stream.Len())
		c.stream.Read(c.rest)
		c.state = connEnded
	case connClosing:
		c.endError = err
		c.state = connClosed
	default:
		return // Nobody uses the Conn.
	}
	c.wakeReader()
	c.wakeWriter()
	c.loop.Wake(c.closed)
	c.network.remove(c)
}

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
	case turns.IsClosed(c.readDeadline.wait()):
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
	return c.stream.Len() > 0 || c.stream.Ended() || c.state.ended() || c.state.closed() || turns.IsClosed(c.readable.timeout)
}

// wakeReader ends the wait of a Read.
func (c *Conn) wakeReader() { c.loop.Wake(c.readable.Waiter) }

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
	case turns.IsClosed(c.writeDeadline.wait()):
		return 0, os.ErrDeadlineExceeded
	case c.state.ended() && c.endError != nil:
		return 0, c.endError
	}
	n, err = c.stream.Write(b)
	c.stream.Flush()
	return n, c.stream.untilClose(err)
}

// canWrite reports whether tryWrite would not return ErrWouldBlock.
func (c *Conn) canWrite() bool {
	return !c.stream.blocked || c.state.ended() || c.state.closed() || turns.IsClosed(c.writable.timeout)
}

// wakeWriter ends the wait of a Write.
func (c *Conn) wakeWriter() { c.loop.Wake(c.writable.Waiter) }

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

// Close closes the connection. Blocked calls return at once. Close waits until the peer
// has received all bytes that were written, at most for NetworkConfig.CloseTimeout. A
// peer that has closed the connection reads no more bytes, and Close then returns nil.
// Another error means that the peer may not have received all bytes, or that the
// connection was closed already.
func (c *Conn) Close() error {
	c.loop.Lock()
	defer c.loop.Unlock()
	if c.state.closed() {
		return c.opError("close", net.ErrClosed)
	}
	c.readDeadline.set(time.Time{}) // A timer would keep the Conn in memory.
	c.writeDeadline.set(time.Time{})
	c.rest = nil
	c.wakeReader()
	c.wakeWriter()
	if c.state == connEnded {
		c.state = connClosed
	} else {
		c.state = connClosing
		c.stream.Conn().SetTimeout(c.network.cfg.CloseTimeout)
		_ = c.stream.Close() // Stream.Close fails if the connection is closing already.
		c.stream.Flush()
		c.loop.Changed()
		c.loop.Sleep(c.closed, nil)
	}
	if c.endError == ErrPeerClosed { // A ResetError may match ErrPeerClosed too.
		return nil
	}
	return c.opError("close", c.endError)
}

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

// LocalAddr returns the address of this side, an Addr.
func (c *Conn) LocalAddr() net.Addr { return Addr{c.stream.Conn().Info().LocalAddr} }

// RemoteAddr returns the address of the peer, an Addr.
func (c *Conn) RemoteAddr() net.Addr { return Addr{c.stream.Conn().Info().RemoteAddr} }
