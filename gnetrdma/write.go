package gnetrdma

import (
	"errors"
	"io"
	"net"
	"os"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/panjf2000/gnet/v2/pkg/pool/byteslice"

	"github.com/rdmaloop/rdmaloop/stream"
)

// Write sends b, after output that waits. What can not be sent until the peer reads is
// copied. The result is len(b), or 0 and an error: ErrOutboundFull,
// os.ErrDeadlineExceeded, the error of a failed allocation, or net.ErrClosed. After
// net.ErrClosed the connection is closed, or OnClose follows with the reason. After the
// others the connection is closed.
func (c *conn) Write(b []byte) (int, error) {
	if !c.sends() {
		return 0, net.ErrClosed
	}
	if err := c.flush(); err != nil {
		return 0, err
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

// sends reports whether the handler may write.
func (c *conn) sends() bool {
	return c.stream != nil && (c.state == connOpen || c.state == connEnding)
}

// writeFailed handles an error of the stream other than stream.ErrWouldBlock, and returns
// the error for the handler. If the stream is ending, its OnClose follows and has the
// reason. For other errors writeFailed closes the connection.
func (c *conn) writeFailed(err error) error {
	if errors.Is(err, stream.ErrClosed) || errors.Is(err, stream.ErrPeerClosed) {
		return net.ErrClosed
	}
	_ = c.close(err)
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
	case c.writeDeadline.passed():
		_ = c.abort(os.ErrDeadlineExceeded)
		return os.ErrDeadlineExceeded
	}
	c.output.add(b)
	return nil
}

// flush sends output that waits, as much as the peer takes. When all is sent and OnClose
// has returned, flush closes the stream. The error is that of writeFailed.
func (c *conn) flush() error {
	err := c.sendOutput()
	if c.state == connFlushing && c.output.len() == 0 {
		_ = c.stream.Close() // It fails if the stream is ending already.
	}
	return err
}

// sendOutput is flush, but does not close the stream. After an error no output is left.
func (c *conn) sendOutput() error {
	for c.output.len() > 0 {
		n, err := c.stream.Write(c.output.first())
		c.output.remove(n)
		if errors.Is(err, stream.ErrWouldBlock) {
			return nil // OnWritable follows.
		}
		if err != nil {
			c.output.free()
			return c.writeFailed(err)
		}
	}
	return nil
}

// OutboundBuffered returns how many bytes wait until the peer reads.
func (c *conn) OutboundBuffered() int { return c.output.len() }

// Flush sends what was written and can be sent now, instead of at the end of the loop's
// turn. The errors are those of Write.
func (c *conn) Flush() error {
	if !c.sends() {
		return net.ErrClosed
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.stream.Flush()
	return nil
}

// ReadFrom copies bytes from r to the output until the end of r. The next Flush or Write
// sends them, or the end of the connection. After an error of r, the bytes before it stay
// in the output.
func (c *conn) ReadFrom(r io.Reader) (n int64, err error) {
	if !c.sends() {
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

// asyncWrite calls write if the connection is open.
func (c *conn) asyncWrite(write func() error) error {
	if c.state != connOpen {
		return net.ErrClosed
	}
	return write()
}

// chunkSize is the size in bytes of a piece of memory of an output.
const chunkSize = 64 << 10

// An output has bytes that wait until the peer reads. The memory is from the pool of
// gnet.
type output struct {
	chunks [][]byte // memory of the bytes; only the last chunk may have room for more
	start  int      // how many bytes of the first chunk were removed
	size   int      // number of bytes
}

func (o *output) len() int { return o.size }

// add appends a copy of b.
func (o *output) add(b []byte) {
	for len(b) > 0 {
		n := copy(o.room(), b)
		o.added(n)
		b = b[n:]
	}
}

// room returns memory for more bytes, at least one. After the caller has stored bytes at
// its beginning, it calls added.
func (o *output) room() []byte {
	last := len(o.chunks) - 1
	if last < 0 || len(o.chunks[last]) == cap(o.chunks[last]) {
		o.chunks = append(o.chunks, byteslice.Get(chunkSize)[:0])
		last++
	}
	chunk := o.chunks[last]
	return chunk[len(chunk):cap(chunk)]
}

// added appends the first n bytes of the result of room.
func (o *output) added(n int) {
	last := len(o.chunks) - 1
	o.chunks[last] = o.chunks[last][:len(o.chunks[last])+n]
	o.size += n
}

// first returns the first bytes. There are some.
func (o *output) first() []byte { return o.chunks[0][o.start:] }

// remove removes the first n bytes, at most len(first()).
func (o *output) remove(n int) {
	o.size -= n
	if o.start += n; o.start == len(o.chunks[0]) {
		o.dropChunk()
	}
}

// dropChunk gives the first chunk back.
func (o *output) dropChunk() {
	byteslice.Put(o.chunks[0])
	last := copy(o.chunks, o.chunks[1:])
	o.chunks[last] = nil
	o.chunks = o.chunks[:last]
	o.start = 0
}

// free removes all bytes.
func (o *output) free() {
	for len(o.chunks) > 0 {
		o.dropChunk()
	}
	o.size = 0
}
