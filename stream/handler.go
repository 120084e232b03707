package stream

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A Handler has the callbacks of streams. Each callback runs on the goroutine of the
// stream's loop: see package reactor. A callback must not block. The application embeds
// BaseHandler and overrides some methods.
type Handler interface {
	// OnRequest is called for the request of a peer at a listener. The application answers
	// with Accept or Reject, in the callback or later. Requests of peers that do not speak
	// the protocol are rejected without this call.
	OnRequest(r *Request)
	// OnAcceptError is called when an accepted request did not become a stream. After a
	// successful Accept, either OnOpen or OnAcceptError follows.
	OnAcceptError(r *Request, err error)
	// OnListenError is called when a listener was closed because its device has failed:
	// see reactor.Handler.
	OnListenError(ln *reactor.Listener, err error)
	// OnDialError is called when a Dial that returned nil did not lead to a stream. The
	// parameters are those of reactor.Handler, but o is the pointer passed to Dial. The error
	// matches ErrVersion if the reply of the peer is one of another protocol or version, and
	// cm.ErrRefused if the peer has rejected the request.
	OnDialError(l *reactor.Loop, addr netip.AddrPort, o *DialOptions, err error)

	// OnOpen is the first callback for s.
	OnOpen(s *Stream)
	// OnData is called when bytes have arrived. The handler reads them with Stream.Bytes
	// and Stream.Discard, now or later. OnData is not called again for bytes that were
	// not read, until further bytes arrive.
	OnData(s *Stream)
	// OnWritable is called once after Write returned ErrWouldBlock, when more can be
	// written.
	OnWritable(s *Stream)
	// OnEnd is called once when the peer has ended its writing direction. All bytes have
	// arrived. The handler can still read them, and can still write, unless the peer has
	// closed the stream.
	OnEnd(s *Stream)
	// OnStop is called for each open stream when the engine begins to shut down, unless this
	// side has closed the stream: see reactor.Engine.Stop. BaseHandler closes the stream. A
	// handler may first write its last bytes, and call Stream.Close in OnStop or in a later
	// callback. Until then the stream works as before. If the handler has not called Close
	// within reactor.Limits.StopTimeout, the engine ends the connection. The peer then gets
	// what was written and a *ResetError, because the stream has no end, and OnClose gets a
	// *ResetError that matches reactor.ErrShutdown.
	OnStop(s *Stream)
	// OnClose is the last callback for s. Bytes that were not read are lost when it
	// returns. The parameter err is nil if this side has closed the stream and the peer
	// has received everything. It is also nil if this side has ended its writing direction
	// and the peer has then ended its own or closed the stream. Otherwise it is or matches:
	//
	//   - ErrPeerClosed: the peer has closed the stream, and may not have read all bytes.
	//   - ErrProtocol: the peer has violated the protocol.
	//   - *ResetError: the connection has failed, or the engine has ended it: see OnStop.
	//   - the parameter of Abort.
	OnClose(s *Stream, err error)
}

// BaseHandler is a Handler that accepts every request, discards all bytes, closes a stream
// when the peer ends its writing direction or the engine stops, and ignores failures of
// dialing, accepting and listening.
type BaseHandler struct{}

// OnRequest accepts the request.
func (BaseHandler) OnRequest(r *Request) { _ = r.Accept(nil) }

// OnAcceptError does nothing.
func (BaseHandler) OnAcceptError(*Request, error) {}

// OnListenError does nothing.
func (BaseHandler) OnListenError(*reactor.Listener, error) {}

// OnDialError does nothing.
func (BaseHandler) OnDialError(*reactor.Loop, netip.AddrPort, *DialOptions, error) {}

// OnOpen does nothing.
func (BaseHandler) OnOpen(*Stream) {}

// OnData discards the bytes.
func (BaseHandler) OnData(s *Stream) { s.Discard(s.Len()) }

// OnWritable does nothing.
func (BaseHandler) OnWritable(*Stream) {}

// OnEnd closes the stream.
func (BaseHandler) OnEnd(s *Stream) { _ = s.Close() }

// OnStop closes the stream.
func (BaseHandler) OnStop(s *Stream) { _ = s.Close() } // It does not fail for an open stream.

// OnClose does nothing.
func (BaseHandler) OnClose(*Stream, error) {}
