package gnetrdma

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/rdmaloop/rdmaloop/reactor"
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

// callbacks is the stream.Handler of the connections of one listener, or of those that
// were dialed. The UserData of a Stream is its conn.
type callbacks struct {
	engine *engine
	addr   net.Addr // address of the listener, or nil
}

// OnRequest accepts the request, unless the engine is stopping.
func (cb *callbacks) OnRequest(r *stream.Request) {
	if cb.engine.stopping.Load() {
		_ = r.Reject(nil) // It fails if the peer has given up.
		return
	}
	_ = r.Accept(&stream.AcceptOptions{UserData: newConn(cb.engine), Loop: cb.engine.loopFor(r)}) // It fails if the peer has given up.
}

// OnAcceptError does nothing, because the handler does not know the connection.
func (cb *callbacks) OnAcceptError(*stream.Request, error) {}

// OnListenError stops the engine, because it can not accept connections any more.
func (cb *callbacks) OnListenError(_ *reactor.Listener, err error) { cb.engine.fail(err) }

// OnStop closes the stream.
func (cb *callbacks) OnStop(s *stream.Stream) { _ = s.Close() } // It does not fail for an open stream.

// OnDialError passes the error to the caller of Dial.
func (cb *callbacks) OnDialError(_ *reactor.Loop, _ netip.AddrPort, o *stream.DialOptions, err error) {
	o.UserData.(*conn).finishDial(err)
}

// OnOpen passes the connection to the handler.
func (cb *callbacks) OnOpen(s *stream.Stream) { connOf(s).opened(s, cb.addr) }

// OnData passes the bytes to the handler.
func (cb *callbacks) OnData(s *stream.Stream) { connOf(s).receive() }

// OnEnd closes the connection when the handler has got all bytes. gnet does the same when
// a peer has ended its writing direction.
func (cb *callbacks) OnEnd(s *stream.Stream) { connOf(s).receive() }

// OnWritable sends output that waits.
func (cb *callbacks) OnWritable(s *stream.Stream) {
	c := connOf(s)
	_ = c.flush() // After an error the connection is closed, or OnClose follows.
	c.receive()
}

// OnClose ends the connection for the handler, if that has not happened yet.
func (cb *callbacks) OnClose(s *stream.Stream, err error) {
	c := connOf(s)
	if c.state == connOpening {
		return // The loop was closing its connections when the stream opened.
	}
	// A reset also matches ErrPeerClosed, if the peer has ended the connection of the stream.
	if reset := new(stream.ResetError); errors.Is(err, stream.ErrPeerClosed) && !errors.As(err, &reset) {
		err = io.EOF // as in gnet
	}
	c.streamClosed(err)
}

// connOf returns the conn of a stream.
func connOf(s *stream.Stream) *conn { return s.UserData.(*conn) }

// opened is called when the stream is open. The parameter local is the address of the
// listener, or nil for a connection that was dialed.
func (c *conn) opened(s *stream.Stream, local net.Addr) {
	l := c.engine.loops[s.Conn().Loop().Index()]
	if l.state != loopOpen {
		_ = s.Close() // The stream ends without callbacks of the handler.
		c.finishDial(net.ErrClosed)
		return
	}
	c.loop, c.stream, c.state = l, s, connOpen
	c.local, c.remote = local, stream.Addr{AddrPort: s.Conn().Info().RemoteAddr}
	if local == nil {
		c.local = stream.Addr{AddrPort: s.Conn().Info().LocalAddr}
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
		c.stream.Conn().SetTimeout(c.engine.drainTimeout())
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

// A deadline calls a function of a connection when a time has passed. Any goroutine may
// set it.
type deadline struct {
	c       *conn
	expired func()
	at      atomic.Int64 // the deadline in nanoseconds since engine.epoch; 0 means none
	// armed is the time at which the loop next checks the deadline, in nanoseconds since
	// engine.epoch; 0 means that no check is planned. A deadline that is later than the
	// planned check needs no call to the loop.
	armed atomic.Int64
	timer *reactor.Timer // only the goroutine of the loop uses it
}

func (d *deadline) init(c *conn, expired func()) { d.c, d.expired = c, expired }

// set sets the deadline. The zero time means none. A time that is more than 292 years
// away, the largest time.Duration, counts as 292 years away.
func (d *deadline) set(t time.Time) error {
	if t.IsZero() {
		d.at.Store(0)
		return nil
	}
	at := max(int64(t.Sub(d.c.engine.epoch)), 1) // Sub limits its result to a time.Duration.
	d.at.Store(at)
	if armed := d.armed.Load(); armed != 0 && armed <= at {
		return nil
	}
	return d.c.loop.enqueue(task{run: d.check})
}

// check runs on the loop. It calls expired if the deadline has passed, and otherwise
// makes sure that check runs again then.
func (d *deadline) check() {
	d.stop()
	at := d.at.Load()
	if at == 0 || d.c.state != connOpen {
		return
	}
	left := time.Duration(at) - time.Since(d.c.engine.epoch)
	if left <= 0 {
		d.expired()
		return
	}
	d.armed.Store(at)
	d.timer = d.c.loop.reactor.After(left, d.check)
}

// passed reports whether there is a deadline and it has passed.
func (d *deadline) passed() bool {
	at := d.at.Load()
	return at != 0 && int64(time.Since(d.c.engine.epoch)) >= at
}

// stop stops the timer.
func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.armed.Store(0)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline with the same time.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err // The engine has ended, and SetWriteDeadline would return the same error.
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline closes the connection at t, and OnClose gets os.ErrDeadlineExceeded. A
// handler that expects a message from time to time sets a later deadline in OnTraffic.
// The zero time means no deadline. Any goroutine may call it.
func (c *conn) SetReadDeadline(t time.Time) error { return c.readDeadline.set(t) }

// SetWriteDeadline closes the connection at t, or at the next write after t, if output
// has to wait for the peer then. OnClose gets os.ErrDeadlineExceeded. The zero time means
// no deadline. Any goroutine may call it.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.writeDeadline.set(t) }

// readExpired is called when the read deadline has passed.
func (c *conn) readExpired() {
	_ = c.close(os.ErrDeadlineExceeded) // close has done what OnClose asked for.
}

// writeExpired is called when the write deadline has passed.
func (c *conn) writeExpired() {
	if c.output.len() > 0 {
		_ = c.abort(os.ErrDeadlineExceeded) // abort has done what OnClose asked for.
	}
}

// Fd returns -1, because a connection has no descriptor.
func (c *conn) Fd() int { return -1 }

// Dup is not supported.
func (c *conn) Dup() (int, error) { return -1, gneterrors.ErrUnsupportedOp }

// SetReadBuffer is not supported: see Config.Buffers.
func (c *conn) SetReadBuffer(int) error { return gneterrors.ErrUnsupportedOp }

// SetWriteBuffer is not supported: see Config.Buffers.
func (c *conn) SetWriteBuffer(int) error { return gneterrors.ErrUnsupportedOp }

// SetLinger is not supported: see reactor.Config.Limits.DrainTimeout.
func (c *conn) SetLinger(int) error { return gneterrors.ErrUnsupportedOp }

// SetNoDelay does nothing for true. False is not supported, because small messages are
// never delayed.
func (c *conn) SetNoDelay(noDelay bool) error {
	if noDelay {
		return nil
	}
	return gneterrors.ErrUnsupportedOp
}

// SetKeepAlivePeriod is not supported: see reactor.Config.Transport.Keepalive.
func (c *conn) SetKeepAlivePeriod(time.Duration) error { return gneterrors.ErrUnsupportedOp }

// SetKeepAlive is not supported: see reactor.Config.Transport.Keepalive.
func (c *conn) SetKeepAlive(bool, time.Duration, time.Duration, int) error {
	return gneterrors.ErrUnsupportedOp
}
