package gnetrdma

import (
	"io"
)

// receive passes bytes that have arrived to the handler, and then the end of the stream.
func (c *conn) receive() {
	for c.state == connOpen && c.stream.Len() > 0 {
		if c.outbound.Buffered() > c.engine.cfg.MaxOutbound/4 {
			return // flush calls receive again.
		}
		n := c.stream.Read(c.loop.buffer)
		c.buffer = c.loop.buffer[:n]
		_ = c.traffic() // The action is done.
	}
	if c.state == connOpen && c.stream.Ended() {
		_ = c.close(io.EOF)
	}
}

// traffic calls OnTraffic, and keeps the bytes that the handler did not read. The result
// is that of act.
func (c *conn) traffic() error {
	err := c.act(c.engine.handler.OnTraffic(c))
	if c.state != connOpen {
		return err
	}
	rest := c.buffer
	c.buffer = nil
	if c.inbound.Buffered()+len(rest) > c.engine.cfg.MaxInbound {
		return c.abort(ErrInboundFull)
	}
	_, _ = c.inbound.Write(rest) // It never fails.
	return err
}

// InboundBuffered returns how many bytes the handler can read.
func (c *conn) InboundBuffered() int { return c.inbound.Buffered() + len(c.buffer) }

// Read copies bytes to p and removes them. If there are none and p is not empty, the
// error is io.ErrShortBuffer.
func (c *conn) Read(p []byte) (n int, err error) {
	if !c.inbound.IsEmpty() {
		n, _ = c.inbound.Read(p) // It never fails if there are bytes.
	}
	m := copy(p[n:], c.buffer)
	c.buffer = c.buffer[m:]
	if n += m; n == 0 && len(p) > 0 {
		return 0, io.ErrShortBuffer
	}
	return n, nil
}

// Next returns the next n bytes and removes them. If n is zero or less, it returns all.
// If there are fewer, the error is io.ErrShortBuffer. The slice is valid until the
// callback returns.
func (c *conn) Next(n int) ([]byte, error) {
	all := c.InboundBuffered()
	switch {
	case n > all:
		return nil, io.ErrShortBuffer
	case n <= 0:
		n = all
	}
	if c.inbound.IsEmpty() {
		b := c.buffer[:n]
		c.buffer = c.buffer[n:]
		return b, nil
	}
	b := make([]byte, n)
	_, err := c.Read(b)
	return b, err
}

// Peek is Next, but does not remove the bytes. The slice is valid until the callback
// returns, and at most until bytes are removed.
func (c *conn) Peek(n int) ([]byte, error) {
	all := c.InboundBuffered()
	switch {
	case n > all:
		return nil, io.ErrShortBuffer
	case n <= 0:
		n = all
	}
	if c.inbound.IsEmpty() {
		return c.buffer[:n], nil
	}
	head, tail := c.inbound.Peek(n)
	if len(head) == n {
		return head, nil
	}
	b := append(make([]byte, 0, n), head...)
	b = append(b, tail...)
	return append(b, c.buffer[:n-len(b)]...), nil
}

// Discard removes n bytes, or all if n is zero or less, or more than there are. It
// returns how many it has removed.
func (c *conn) Discard(n int) (int, error) {
	if all := c.InboundBuffered(); n <= 0 || n >= all {
		c.buffer = nil
		c.inbound.Done()
		return all, nil
	}
	if removed, _ := c.inbound.Discard(n); removed < n { // It returns io.EOF if empty.
		c.buffer = c.buffer[n-removed:]
	}
	return n, nil
}

// WriteTo writes all bytes to w and removes them.
func (c *conn) WriteTo(w io.Writer) (n int64, err error) {
	if !c.inbound.IsEmpty() {
		if n, err = c.inbound.WriteTo(w); err != nil {
			return n, err
		}
	}
	m, err := w.Write(c.buffer)
	c.buffer = c.buffer[m:]
	return n + int64(m), err
}
