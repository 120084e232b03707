package gnetrdma

import (
	"net"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/rdmaloop/rdmaloop/stream"
)

// A conn is a gnet.Conn on a stream.
//
// Any goroutine may call AsyncWrite, AsyncWritev, Wake, Close, CloseWithCallback,
// EventLoop and the methods that set deadlines. Only callbacks of the connection's loop
// may call the others.
type conn struct {
	engine *engine
	loop   *loop          // nil until the stream is open
	stream *stream.Stream // nil before the stream is open, and after it has ended
	state  connState

	context       any
	local, remote net.Addr

	input  input
	output output

	readDeadline, writeDeadline deadline

	// result gets the result of a dial, or is nil.
	result chan gnet.RegisteredResult
}

// A connState says what the handler knows of a connection. The states follow each other
// in this order.
type connState uint8

const (
	// connOpening: the stream is not open, and the handler does not know the connection.
	// When the stream opens, the method opened leads to connOpen. If the stream does not
	// open, or the loop closes its connections, the handler never knows the connection.
	// Then this state is the last one.
	connOpening connState = iota
	// connOpen: OnOpen was called. The handler reads and writes, and gets OnTraffic. These
	// lead to connEnding: a close by the handler, the end of the stream, a deadline, a
	// bound of Config, an error of the stream's Write, and loop.closeConns.
	connOpen
	// connEnding: OnClose is running. The handler can write if the stream has not ended.
	// The return of OnClose leads to connFlushing.
	connEnding
	// connFlushing: OnClose has returned, and writes fail. The stream sends the output that
	// is left, and is then closed, or it was aborted. The end of the stream leads to
	// connEnded.
	connFlushing
	// connEnded: OnClose has returned, and the stream has ended. This state is the last one.
	connEnded
)

func newConn(e *engine) *conn {
	c := &conn{engine: e}
	c.readDeadline.init(c, c.readExpired)
	c.writeDeadline.init(c, c.writeExpired)
	return c
}

// opened is called when the stream is open. The parameter local is the address of the
// listener, or nil for a connection that was dialed.
func (c *conn) opened(s *stream.Stream, local net.Addr) {
	l := c.engine.loops[s.Loop().Index()]
	if l.state != loopOpen {
		_ = s.Close() // The stream ends without callbacks of the handler.
		c.finishDial(net.ErrClosed)
		return
	}
	c.loop, c.stream, c.state = l, s, connOpen
	c.local, c.remote = local, stream.Addr{AddrPort: s.RemoteAddr()}
	if local == nil {
		c.local = stream.Addr{AddrPort: s.LocalAddr()}
	}
	l.streams++
	l.open[c] = struct{}{}
	c.engine.conns.Add(1)
	out, action := c.engine.handler.OnOpen(c)
	if c.state == connOpen {
		_, _ = c.Write(out) // After an error the connection is closed, or OnClose follows.
	}
	_ = c.act(action)
	c.finishDial(nil)
}

// finishDial sends the result of a dial to its caller.
func (c *conn) finishDial(err error) {
	if c.result == nil {
		return
	}
	if err != nil {
		c.result <- gnet.RegisteredResult{Err: err}
	} else {
		c.result <- gnet.RegisteredResult{Conn: c}
	}
	close(c.result)
	c.result = nil
}

// act does what a callback asks for with its result. If that is gnet.Shutdown, the error
// is errors.ErrEngineShutdown of gnet.
func (c *conn) act(a gnet.Action) error {
	switch a {
	case gnet.Close:
		return c.close(nil)
	case gnet.Shutdown:
		c.loop.closeConns()
		c.engine.stop()
		return gneterrors.ErrEngineShutdown
	}
	return nil // gnet treats other values as gnet.None
}

// close ends the connection for the handler. The parameter is the error for OnClose. Then
// the stream sends the output that is left, and ends. The result is that of act.
func (c *conn) close(err error) error {
	if c.state != connOpen {
		return nil
	}
	action := c.end(err)
	if c.stream != nil {
		c.stream.Conn().SetDeadline(time.Now().Add(c.engine.drainTimeout()))
		_ = c.flush() // Nobody is left who could use the error.
	}
	return c.act(action)
}

// abort ends the connection without sending the output that is left.
func (c *conn) abort(err error) error {
	if c.state != connOpen {
		return nil
	}
	s := c.stream
	action := c.end(err)
	_ = s.Abort(err) // It fails if the stream is ending.
	return c.act(action)
}

// end calls OnClose, and releases what only the handler needs.
func (c *conn) end(err error) gnet.Action {
	c.state = connEnding
	delete(c.loop.open, c)
	c.engine.conns.Add(-1)
	action := c.engine.handler.OnClose(c, err)
	c.state = connFlushing
	c.context, c.local, c.remote = nil, nil, nil
	c.input = input{} // A callback that is still running may use the memory.
	c.readDeadline.stop()
	c.writeDeadline.stop()
	return action
}

// streamClosed is called when the stream has ended.
func (c *conn) streamClosed(err error) {
	c.stream = nil
	if c.state == connOpen {
		_ = c.act(c.end(err))
	}
	c.state = connEnded
	c.output.free()
	c.loop.streamEnded()
}

// Context returns the value that SetContext has stored.
func (c *conn) Context() any { return c.context }

// SetContext stores a value for the application.
func (c *conn) SetContext(v any) { c.context = v }

// LocalAddr returns the address of the listener, as in gnet, or the local address of a
// connection that was dialed. It is nil after OnClose.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the peer. It is nil after OnClose.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// EventLoop returns the loop of the connection.
func (c *conn) EventLoop() gnet.EventLoop { return c.loop }

// Wake makes the loop call OnTraffic, perhaps without new bytes, and then the callback.
func (c *conn) Wake(callback gnet.AsyncCallback) error {
	return c.loop.enqueue(task{kind: wakeTask, c: c, callback: callback})
}

// wake is Wake on the loop.
func (c *conn) wake() error {
	if c.state != connOpen {
		return nil
	}
	return c.traffic()
}

// Close makes the loop close the connection, after asynchronous writes before the call.
func (c *conn) Close() error { return c.CloseWithCallback(nil) }

// CloseWithCallback is Close. The loop calls the callback after OnClose.
func (c *conn) CloseWithCallback(callback gnet.AsyncCallback) error {
	return c.loop.enqueue(task{kind: closeTask, c: c, callback: callback})
}
