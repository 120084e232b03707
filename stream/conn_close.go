package stream

import (
	"net"
	"time"
)

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
		c.stream.Conn().SetDeadline(time.Now().Add(c.network.cfg.CloseTimeout))
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
