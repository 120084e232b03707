package stream

import "github.com/rdmaloop/rdmaloop/reactor"

// callbacks is the Handler of the connections of a Network. The context of a Stream is
// its Conn.
type callbacks struct {
	BaseHandler
	listener *Listener // listener of accepted connections, or nil
}

// OnRequest accepts the request if the listener has room for the connection. Connections
// that are being opened take no room, because their peers may never confirm the reply.
func (h callbacks) OnRequest(r *Request) {
	ln := h.listener
	if len(ln.accepted) == cap(ln.accepted) || isClosed(ln.closed) {
		_ = r.Reject(nil) // Reject fails if the peer has given up the request.
		return
	}
	_ = r.Accept(&AcceptOptions{Context: newConn(ln.network)}) // If Accept fails, no connection opens.
}

// OnListenError makes Accept return the error.
func (h callbacks) OnListenError(_ *reactor.Listener, err error) { h.listener.fail(err) }

// OnOpen passes the connection to Dial or Accept. If the listener has no room for it, the
// connection ends.
func (h callbacks) OnOpen(s *Stream) {
	c := connOf(s)
	opened := c.open(s)
	if h.listener == nil {
		c.loop.Wake(c.opened)
		return
	}
	if !opened {
		return // The Network is closing.
	}
	select {
	case h.listener.accepted <- c:
	default: // More connections were being opened than the listener has room for.
		_ = s.Abort(nil) // Abort fails if the connection is ending already.
		return
	}
	if isClosed(h.listener.closed) {
		c.network.inBackground(h.listener.closeAccepted)
	}
}

// OnDialError ends the wait of Dial.
func (callbacks) OnDialError(o *DialOptions, err error) { o.Context.(*Conn).dialFailed(err) }

// OnData ends the wait of a Read.
func (callbacks) OnData(s *Stream) { connOf(s).wakeReader() }

// OnEnd ends the wait of a Read.
func (callbacks) OnEnd(s *Stream) { connOf(s).wakeReader() }

// OnWritable ends the wait of a Write.
func (callbacks) OnWritable(s *Stream) { connOf(s).wakeWriter() }

// OnClose ends all waits.
func (callbacks) OnClose(s *Stream, err error) { connOf(s).end(err) }

// connOf returns the Conn of a stream of a Network.
func connOf(s *Stream) *Conn { return s.context.(*Conn) }
