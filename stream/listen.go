package stream

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// The largest sizes of the application's private data in bytes. They are the limits of
// the connection manager (56 and 196) without the part of the protocol.
const (
	MaxRequestData = 56 - rsocket.HelloSize  // in a connection request
	MaxReplyData   = 196 - rsocket.HelloSize // in the reply to a request
)

// Listen makes a listener for streams at addr. Its streams belong to the loops of the
// engine e, and the Handler h gets their callbacks. A nil o means the defaults. Any
// goroutine may call Listen. The engine's Config.MaxInFlight must be at least 16. A peer
// may send Config.MaxInFlight-8 data messages before this side has read one.
//
// The errors are those of reactor.Engine.Listen, and a *verbs.ParamError for Buffers that
// are out of range.
func Listen(e *reactor.Engine, addr netip.AddrPort, h Handler, o *ListenOptions) (*reactor.Listener, error) {
	if o == nil {
		o = &ListenOptions{}
	}
	buffers, err := o.Buffers.withDefaults(defaultBuffer)
	if err != nil {
		return nil, err
	}
	return e.Listen(addr, &reactor.ListenOptions{
		Handler: &acceptor{handler: h, buffers: buffers}, ImmediatesOnly: true,
		TOS: o.TOS, ReuseAddr: o.ReuseAddr, V6Only: o.V6Only,
	})
}

// An acceptor is the reactor.ConnHandler of a listener and its connections.
type acceptor struct {
	connHandler
	handler Handler
	buffers Buffers
}

// A Request is the request of a peer for a stream. The application answers it once, with
// Accept or Reject. Any goroutine may call the methods.
type Request struct {
	*reactor.ConnRequest
	acceptor *acceptor
	peer     rsocket.Hello
	private  []byte
}

// AcceptOptions are the options of Accept.
type AcceptOptions struct {
	// PrivateData is sent to the peer, at most MaxReplyData bytes. Accept copies it.
	PrivateData []byte
	// Context is the result of Stream.Context until SetContext is called.
	Context any
}

// OnConnectRequest rejects requests of peers that do not speak the protocol.
func (a *acceptor) OnConnectRequest(req *reactor.ConnRequest) {
	peer, private, err := rsocket.DecodeHello(req.PrivateData())
	if err != nil {
		_ = req.Reject(nil) // Reject fails if the peer has given up the request.
		return
	}
	a.handler.OnRequest(&Request{ConnRequest: req, acceptor: a, peer: peer, private: private})
}

// OnAcceptError passes the error to the Handler, and releases the memory of the stream.
func (a *acceptor) OnAcceptError(req *reactor.ConnRequest, err error) {
	s := req.Context().(*Stream)
	s.release()
	a.handler.OnAcceptError(s.request, err)
}

// OnListenError passes the error to the Handler.
func (a *acceptor) OnListenError(ln *reactor.Listener, err error) { a.handler.OnListenError(ln, err) }

// OnOpen opens the stream of an accepted request.
func (a *acceptor) OnOpen(c *reactor.Conn) {
	s := c.Context().(*Stream)
	s.request = nil
	s.open()
	a.handler.OnOpen(s)
}

// OnDialError is not called, because a listener does not dial.
func (a *acceptor) OnDialError(*reactor.DialOptions, error) {}

// PrivateData returns the private data of the peer's application. It may be padded with
// zeros. The slice belongs to the request and stays valid.
func (r *Request) PrivateData() []byte { return r.private }

// Accept accepts the request. OnOpen or OnAcceptError follows. A nil o means the
// defaults. The errors are those of reactor.ConnRequest.Accept, and a *verbs.ParamError
// if the private data is too long.
func (r *Request) Accept(o *AcceptOptions) error {
	if o == nil {
		o = &AcceptOptions{}
	}
	if err := checkPrivateData(o.PrivateData, MaxReplyData); err != nil {
		return err
	}
	s := newStream(r.acceptor.handler, r.acceptor.buffers, o.Context)
	s.peer, s.private, s.request = r.peer, r.private, r
	return r.ConnRequest.Accept(&reactor.AcceptParams{
		PrivateDataFor: s.privateData(o.PrivateData), Context: s,
		ResponderResources: -1, InitiatorDepth: -1, // The protocol has no READs.
	})
}

// checkPrivateData returns a *verbs.ParamError if data has more than limit bytes.
func checkPrivateData(data []byte, limit int) error {
	if len(data) <= limit {
		return nil
	}
	return &verbs.ParamError{Field: "private data", Value: int64(len(data)), Limit: int64(limit)}
}
