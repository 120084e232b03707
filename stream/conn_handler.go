package stream

import "github.com/rdmaloop/rdmaloop/reactor"

// A connHandler passes the callbacks of an open connection to its stream. The acceptor
// and the dialer embed it.
type connHandler struct{ reactor.BaseConnHandler }

var _ reactor.StopHandler = connHandler{}

// OnMessage handles a message of the peer.
func (connHandler) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if s := streamOf(c); s.in != nil { // otherwise the connection is ending
		s.received(msg)
	}
}

// OnCompletion handles the completion of a message of this side.
func (connHandler) OnCompletion(c *reactor.Conn, op reactor.Op, err error) {
	streamOf(c).completed(op, err)
}

// OnClose ends the stream.
func (connHandler) OnClose(c *reactor.Conn, err error) {
	s := streamOf(c)
	s.enterOver()
	s.handler.OnClose(s, s.closeResult(err))
	s.in.Clear()
	s.release()
}

// OnStop closes the stream when the engine stops, so that the peer gets the end of the
// stream and not a reset.
func (connHandler) OnStop(c *reactor.Conn) {
	_ = streamOf(c).Close() // It fails if the stream is closing.
}

// streamOf returns the stream of a connection.
func streamOf(c *reactor.Conn) *Stream { return c.Context().(*Stream) }
