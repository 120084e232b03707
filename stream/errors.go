package stream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var (
	// ErrProtocol means that the peer has violated the rsocket protocol.
	ErrProtocol = rsocket.ErrProtocol
	// ErrVersion means that the peer does not speak the rsocket protocol, or speaks
	// another version of it.
	ErrVersion = rsocket.ErrVersion
	// ErrWouldBlock means that Stream.Write has written a part of the bytes, or none.
	// OnWritable is called when the rest can be written.
	ErrWouldBlock = reactor.ErrWouldBlock
	// ErrClosed means that the stream, or its writing direction, was closed by this side.
	ErrClosed = reactor.ErrClosed
	// ErrPeerClosed means that the peer has closed the stream, and this side had not
	// ended its writing direction before. The peer may not have read all bytes.
	ErrPeerClosed = reactor.ErrPeerClosed
)

// A ResetError means that a stream has ended without the messages of the protocol that
// end a stream. This happens, for example, when the process of the peer has ended. Bytes
// may be lost. A ResetError matches syscall.ECONNRESET and Err.
type ResetError struct {
	Err error // why the connection has ended
}

// Error returns the text of the reason.
func (e *ResetError) Error() string { return fmt.Sprintf("stream reset: %v", e.Err) }

// Unwrap returns syscall.ECONNRESET and Err.
func (e *ResetError) Unwrap() []error { return []error{syscall.ECONNRESET, e.Err} }

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

// closedOfNet returns net.ErrClosed for an error after the end of a Network, and else err.
func closedOfNet(err error) error {
	if errors.Is(err, ErrClosed) {
		return net.ErrClosed
	}
	return err
}

// opError returns err as a *net.OpError, as package net does. An error around the reason that
// names the operation or the address again is left out.
func opError(op string, source, addr net.Addr, err error) error {
	if e, ok := err.(*verbs.OpError); ok && e.Op == op {
		err = e.Err
	}
	return &net.OpError{Op: op, Net: "rdma", Source: source, Addr: addr, Err: err}
}
