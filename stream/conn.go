package stream

import (
	"net"
	"sync"

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

// A connState says what has happened to a Conn.
type connState uint8

const (
	// connOpening: the stream is being opened. A Conn begins in this state.
	connOpening connState = iota
	// connCanceled: Dial has returned before the stream was opened. If the stream opens
	// later, it is closed at once. Nobody uses the Conn any more.
	connCanceled
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
	switch {
	case c.state == connCanceled:
	case !c.network.add(c):
		c.state, c.endError = connFailed, net.ErrClosed
	default:
		c.state = connOpen
		return true
	}
	c.discard()
	return false
}

// discard closes a stream that nobody uses.
func (c *Conn) discard() {
	_ = c.stream.Close() // Stream.Close fails if the stream has ended.
	c.stream.Flush()
	c.loop.Changed()
}

// dialFailed is called when the stream could not be opened.
func (c *Conn) dialFailed(err error) {
	if c.state == connOpening {
		c.state, c.endError = connFailed, err
		c.loop.Wake(c.opened)
	}
}

// cancel is called when Dial returns before it was woken.
func (c *Conn) cancel() {
	switch c.state {
	case connOpening:
		c.state = connCanceled
	case connOpen:
		c.discard() // The stream was opened before Dial could cancel.
	}
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

// LocalAddr returns the address of this side, an Addr.
func (c *Conn) LocalAddr() net.Addr { return Addr{c.stream.LocalAddr()} }

// RemoteAddr returns the address of the peer, an Addr.
func (c *Conn) RemoteAddr() net.Addr { return Addr{c.stream.RemoteAddr()} }

var _ net.Conn = (*Conn)(nil)
