package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rdmaloop/rdmaloop/stream/internal/turns"
)

// A Conn is a net.Conn on a stream. Any goroutine may call its methods, also at the same
// time. Errors are a *net.OpError, except io.EOF. They match what the errors of package
// net match: os.ErrDeadlineExceeded after a deadline, net.ErrClosed after Close,
// syscall.EPIPE if the peer has closed, and syscall.ECONNRESET if the connection has
// failed.
type Conn struct {
	network *Network
	loop    *turns.Loop

	reading, writing            sync.Mutex // held during calls of Read and Write
	readDeadline, writeDeadline deadline

	// Only the owner of the loop uses the fields below.
	stream   *Stream
	opened   *turns.Waiter // woken when the connection is open or has failed
	readable waiter
	writable waiter
	closed   *turns.Waiter // woken when the stream has ended
	state    connState
	endError error  // error of OnClose or OnDialError
	rest     []byte // bytes that had arrived and were not read when the stream ended
	lent     bool   // true while WriteTo uses bytes of the ring
	spin     spinTime
}

// A connState says what has happened to a Conn.
type connState uint8

const (
	connOpening  connState = iota
	connCanceled           // Dial has returned before the stream was opened
	connOpen               // the stream is open
	connEnded              // the stream has ended without a call of Close
	connClosing            // Close was called, and the stream has not ended
	connClosed             // Close was called, and the stream has ended
)

// ended reports whether the stream has ended.
func (s connState) ended() bool { return s == connEnded || s == connClosed }

// closed reports whether Close was called.
func (s connState) closed() bool { return s >= connClosing }

func newConn(n *Network) *Conn {
	c := &Conn{
		network: n, loop: n.loop,
		opened: turns.NewWaiter(), closed: turns.NewWaiter(), spin: spinTime{n.cfg.SpinBudget, n.cfg.SpinBudget},
	}
	c.readable = waiter{Waiter: turns.NewWaiter(), ready: c.canRead}
	c.writable = waiter{Waiter: turns.NewWaiter(), ready: c.canWrite}
	c.readDeadline = newDeadline(func() { c.recheck(&c.readable) })
	c.writeDeadline = newDeadline(func() { c.recheck(&c.writable) })
	return c
}

// open is called when the stream is open. If Dial has been canceled or the Network is
// closed, open closes the stream and returns false.
func (c *Conn) open(s *Stream) bool {
	c.stream = s
	if c.state == connCanceled || !c.network.add(c) {
		_ = s.Close()
		c.endError = net.ErrClosed
		return false
	}
	c.state = connOpen
	return true
}

// cancel is called when Dial returns before the connection is open.
func (c *Conn) cancel() {
	if c.state == connOpening {
		c.state = connCanceled
		return
	}
	_ = c.stream.Close() // The stream was opened before Dial could cancel.
}

// end is called when the stream has ended.
func (c *Conn) end(err error) {
	c.endError = err
	if c.state.closed() {
		c.state = connClosed
	} else {
		c.rest = make([]byte, c.stream.Len())
		c.stream.Read(c.rest)
		c.state = connEnded
	}
	c.stream.keepMemory = c.lent
	c.wakeReader()
	c.wakeWriter()
	c.loop.Wake(c.closed)
	c.network.remove(c)
}

// wakeReader ends the wait of a Read.
func (c *Conn) wakeReader() { c.loop.Wake(c.readable.Waiter) }

// wakeWriter ends the wait of a Write.
func (c *Conn) wakeWriter() { c.loop.Wake(c.writable.Waiter) }

// Read reads bytes of the stream. It blocks until bytes are there, the peer has ended its
// writing direction, or the read deadline has passed. The error at the end is io.EOF.
func (c *Conn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
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
	case c.state.ended():
		return c.endError
	}
	return nil
}

// canRead reports whether tryRead would return something.
func (c *Conn) canRead() bool {
	return c.stream.Len() > 0 || c.stream.Ended() || c.state.ended() || c.state.closed() || isClosed(c.readable.timeout)
}

// Write writes b to the stream. It blocks while the peer does not read, until the write
// deadline has passed. The result is the number of bytes that were written. When Write
// returns, the bytes may still be on their way: see Close.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
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
	c.stream.Flush()
	return n, err
}

// canWrite reports whether tryWrite would not return ErrWouldBlock.
func (c *Conn) canWrite() bool {
	return !c.stream.sent.blocked || c.state.ended() || c.state.closed() || isClosed(c.writable.timeout)
}

// CloseWrite ends the writing direction. The peer reads all bytes that were written, and
// then io.EOF. This side can still read.
func (c *Conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.loop.Lock()
	defer c.loop.Unlock()
	if c.state.closed() {
		return c.opError("close", net.ErrClosed)
	}
	err := c.stream.CloseWrite()
	c.stream.Flush()
	return c.opError("close", err)
}

// Close closes the connection. Blocked calls return at once. Close waits until the peer
// has received all bytes that were written, at most for NetworkConfig.CloseTimeout. An
// error means that the peer may not have received all bytes, or that the connection was
// closed already.
func (c *Conn) Close() error {
	c.loop.Lock()
	defer c.loop.Unlock()
	if c.state.closed() {
		return c.opError("close", net.ErrClosed)
	}
	c.rest = nil
	c.wakeReader()
	c.wakeWriter()
	if c.state == connEnded {
		c.state = connClosed
	} else {
		c.state = connClosing
		c.stream.Conn().SetDeadline(time.Now().Add(c.network.cfg.CloseTimeout))
		_ = c.stream.Close() // Stream.Close fails if the connection is closing already.
		c.stream.Flush()
		c.loop.Sleep(c.closed, nil)
	}
	if c.endError == ErrPeerClosed {
		return nil
	}
	return c.opError("close", c.endError)
}

// LocalAddr returns the address of this side, an Addr.
func (c *Conn) LocalAddr() net.Addr { return Addr{c.stream.LocalAddr()} }

// RemoteAddr returns the address of the peer, an Addr.
func (c *Conn) RemoteAddr() net.Addr { return Addr{c.stream.RemoteAddr()} }

// recheck makes a waiting goroutine check its deadline.
func (c *Conn) recheck(w *waiter) {
	c.loop.Lock()
	defer c.loop.Unlock()
	c.loop.Recheck(w.Waiter)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline with the same time.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the time at which present and later calls of Read fail with an
// error that matches os.ErrDeadlineExceeded. The zero time means no deadline. After Close
// the error matches net.ErrClosed.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(&c.readDeadline, &c.readable, t)
}

// SetWriteDeadline is SetReadDeadline for Write.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(&c.writeDeadline, &c.writable, t)
}

func (c *Conn) setDeadline(d *deadline, w *waiter, t time.Time) error {
	c.loop.Lock()
	defer c.loop.Unlock()
	if c.state.closed() {
		return c.opError("set", net.ErrClosed)
	}
	d.set(t)
	c.loop.Recheck(w.Waiter)
	return nil
}

// readError returns the error of Read for the given reason. The end of the stream stays
// io.EOF, because readers compare with it.
func (c *Conn) readError(err error) error {
	if err == io.EOF {
		return err
	}
	return c.opError("read", err)
}

// opError returns a *net.OpError for the given reason, or nil.
func (c *Conn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return opError(op, c.LocalAddr(), c.RemoteAddr(), errorOfNet(err))
}

// errorOfNet returns the error of package net for an error of a Stream.
func errorOfNet(err error) error {
	var reset *ResetError
	switch {
	case errors.As(err, &reset): // A ResetError may also match the errors of the next cases.
		return err
	case errors.Is(err, ErrPeerClosed):
		return syscall.EPIPE
	case errors.Is(err, ErrClosed):
		return net.ErrClosed
	}
	return err
}
