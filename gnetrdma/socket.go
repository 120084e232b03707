package gnetrdma

import (
	"time"

	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
)

// Fd returns -1, because a connection has no descriptor.
func (c *conn) Fd() int { return -1 }

// Dup is not supported.
func (c *conn) Dup() (int, error) { return -1, gneterrors.ErrUnsupportedOp }

// SetReadBuffer is not supported: see Config.Buffers.
func (c *conn) SetReadBuffer(int) error { return gneterrors.ErrUnsupportedOp }

// SetWriteBuffer is not supported: see Config.Buffers.
func (c *conn) SetWriteBuffer(int) error { return gneterrors.ErrUnsupportedOp }

// SetLinger is not supported: see reactor.Config.DrainTimeout.
func (c *conn) SetLinger(int) error { return gneterrors.ErrUnsupportedOp }

// SetNoDelay does nothing for true. False is not supported, because small messages are
// never delayed.
func (c *conn) SetNoDelay(noDelay bool) error {
	if noDelay {
		return nil
	}
	return gneterrors.ErrUnsupportedOp
}

// SetKeepAlivePeriod is not supported: see reactor.Config.Keepalive.
func (c *conn) SetKeepAlivePeriod(time.Duration) error { return gneterrors.ErrUnsupportedOp }

// SetKeepAlive is not supported: see reactor.Config.Keepalive.
func (c *conn) SetKeepAlive(bool, time.Duration, time.Duration, int) error {
	return gneterrors.ErrUnsupportedOp
}
