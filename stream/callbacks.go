package stream

import "github.com/rdmaloop/rdmaloop/reactor"

// callbacks is the Handler of the connections of a Network. The context of a Stream is
// its Conn.
type callbacks struct {
	listener *Listener // listener of accepted connections, or nil
}

// OnRequest accepts the request if the listener has room for the connection.
func (h callbacks) OnRequest(r *Request) {
	ln := h.listener
	if ln.waiting.Add(1) > int64(cap(ln.accepted)) || isClosed(ln.closed) {
		ln.waiting.Add(-1)
		_ = r.Reject(nil) // Reject fails if the peer has given up the request.
		return
	}
	if r.Accept(&AcceptOptions{Context: newConn(ln.network)}) != nil {
		ln.waiting.Add(-1) // Accept has failed, so no connection opens.
	}
}

// OnAcceptError makes room for another connection.
func (h callbacks) OnAcceptError(*Request, error) { h.listener.waiting.Add(-1) }

// OnListenError makes Accept return the error.
func (h callbacks) OnListenError(_ *reactor.Listener, err error) { h.listener.fail(err) }

// OnOpen passes the connection to Dial or Accept.
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
	h.listener.accepted <- c // OnRequest has made sure that the channel has room.
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
