package gnetrdma

import (
	"errors"
	"io"
	"net"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// callbacks is the stream.Handler of the connections of one listener, or of those that
// were dialed. The context of a Stream is its conn.
type callbacks struct {
	engine *engine
	addr   net.Addr // address of the listener, or nil
}

// OnRequest accepts the request, unless the engine is stopping.
func (h *callbacks) OnRequest(r *stream.Request) {
	if h.engine.stopping.Load() {
		_ = r.Reject(nil) // It fails if the peer has given up.
		return
	}
	_ = r.Accept(&stream.AcceptOptions{Context: newConn(h.engine)}) // It fails if the peer has given up.
}

// OnAcceptError does nothing, because the handler does not know the connection.
func (h *callbacks) OnAcceptError(*stream.Request, error) {}

// OnListenError stops the engine, because it can not accept connections any more.
func (h *callbacks) OnListenError(_ *reactor.Listener, err error) { h.engine.fail(err) }

// OnDialError passes the error to the caller of Dial.
func (h *callbacks) OnDialError(o *stream.DialOptions, err error) {
	o.Context.(*conn).finishDial(err)
}

// OnOpen passes the connection to the handler.
func (h *callbacks) OnOpen(s *stream.Stream) { connOf(s).opened(s, h.addr) }

// OnData passes the bytes to the handler.
func (h *callbacks) OnData(s *stream.Stream) { connOf(s).receive() }

// OnEnd closes the connection when the handler has got all bytes. gnet does the same when
// a peer has ended its writing direction.
func (h *callbacks) OnEnd(s *stream.Stream) { connOf(s).receive() }

// OnWritable sends output that waits.
func (h *callbacks) OnWritable(s *stream.Stream) {
	c := connOf(s)
	_ = c.flush() // After an error the connection is closed, or OnClose follows.
	c.receive()
}

// OnClose ends the connection for the handler, if that has not happened yet.
func (h *callbacks) OnClose(s *stream.Stream, err error) {
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
func connOf(s *stream.Stream) *conn { return s.Context().(*conn) }
