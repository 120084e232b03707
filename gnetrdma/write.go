package gnetrdma

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/rdmaloop/rdmaloop/stream"
)

// Write sends b. What can not be sent until the peer reads is copied. The result is
// len(b), or 0 and an error. After an error the connection is closed, or OnClose follows.
// The error is ErrOutboundFull, os.ErrDeadlineExceeded, net.ErrClosed, or the reason why
// the stream has ended.
func (c *conn) Write(b []byte) (int, error) {
	c.flush()
	if !c.mayWrite() {
		return 0, net.ErrClosed
	}
	n := 0
	if c.output.len() == 0 {
		var err error
		if n, err = c.stream.Write(b); err != nil && !errors.Is(err, stream.ErrWouldBlock) {
			return 0, c.writeFailed(err)
		}
	}
	if err := c.keep(b[n:]); err != nil {
		return 0, err
	}
	return len(b), nil
}

// mayWrite reports whether the handler may write.
func (c *conn) mayWrite() bool {
	return (c.state == connOpen || c.state == connEnding) && c.stream != nil
}

// writeFailed is called with the error of stream.Stream.Write. It returns the error for
// the handler.
func (c *conn) writeFailed(err error) error {
	if errors.Is(err, stream.ErrClosed) {
		return net.ErrClosed // The stream has failed. Its OnClose follows and has the reason.
	}
	_ = c.close(err) // close has done what OnClose asked for.
	return err
}

// Writev is Write for several slices.
func (c *conn) Writev(bs [][]byte) (n int, err error) {
	for _, b := range bs {
		if _, err := c.Write(b); err != nil {
			return 0, err
		}
		n += len(b)
	}
	return n, nil
}

// keep copies bytes that have to wait until the peer reads.
func (c *conn) keep(b []byte) error {
	switch {
	case len(b) == 0:
		return nil
	case c.output.len()+len(b) > c.engine.cfg.MaxOutbound:
		_ = c.abort(ErrOutboundFull)
		return ErrOutboundFull
	case c.writeDeadline.passed(time.Now()):
		_ = c.abort(os.ErrDeadlineExceeded)
		return os.ErrDeadlineExceeded
	}
	c.output.add(b)
	return nil
}

// flush sends output that waits, as much as the peer takes. When all is sent and OnClose
// has returned, flush closes the stream.
func (c *conn) flush() {
	for c.output.len() > 0 && c.stream != nil {
		n, err := c.stream.Write(c.output.first())
		if n > 0 {
			c.output.remove(n)
		}
		if errors.Is(err, stream.ErrWouldBlock) {
			return // OnWritable follows.
		}
		if err != nil { // The peer reads no more.
			c.output.free()
			_ = c.writeFailed(err)
		}
	}
	if c.state == connFlushing && c.stream != nil {
		_ = c.stream.Close() // It fails if the peer has closed at the same time.
	}
}

// OutboundBuffered returns how many bytes wait until the peer reads.
func (c *conn) OutboundBuffered() int { return c.output.len() }

// Flush sends what was written and can be sent now, instead of at the end of the loop's
// turn.
func (c *conn) Flush() error {
	if !c.mayWrite() {
		return net.ErrClosed
	}
	c.flush()
	if c.stream != nil {
		c.stream.Flush()
	}
	return nil
}

// ReadFrom copies bytes from r to the output until the end of r. Flush or Write sends
// them. After an error of r, the bytes before it stay in the output.
func (c *conn) ReadFrom(r io.Reader) (n int64, err error) {
	if !c.mayWrite() {
		return 0, net.ErrClosed
	}
	for {
		m, err := r.Read(c.output.room())
		c.output.added(m)
		n += int64(m)
		if c.output.len() > c.engine.cfg.MaxOutbound {
			_ = c.abort(ErrOutboundFull)
			return n, ErrOutboundFull
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// SendTo is for datagrams, and not supported.
func (c *conn) SendTo([]byte, net.Addr) (int, error) { return 0, gneterrors.ErrUnsupportedOp }

// AsyncWrite makes the loop write b. The caller must not change b until the callback was
// called. If the connection is closed, the callback gets net.ErrClosed.
func (c *conn) AsyncWrite(b []byte, callback gnet.AsyncCallback) error {
	return c.loop.enqueue(task{kind: writeTask, c: c, b: b, callback: callback})
}

// AsyncWritev is AsyncWrite for several slices.
func (c *conn) AsyncWritev(bs [][]byte, callback gnet.AsyncCallback) error {
	return c.loop.enqueue(task{kind: writevTask, c: c, bs: bs, callback: callback})
}
