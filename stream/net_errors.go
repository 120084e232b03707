package stream

import (
	"errors"
	"io"
	"net"
	"syscall"
)

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

// opError returns err as a *net.OpError, as package net does.
func opError(op string, source, addr net.Addr, err error) error {
	return &net.OpError{Op: op, Net: "rdma", Source: source, Addr: addr, Err: err}
}
