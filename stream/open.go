package stream

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Buffers are the sizes of the memory of a stream. If a size is out of its range, the
// error of the call with these Buffers is a *verbs.ParamError.
type Buffers struct {
	// Receive is the size in bytes of the ring into which the peer writes. It is rounded up
	// to an even number. The peer may fill the ring before this side reads. Zero means 128
	// KiB for Listen and Dial, and 512 KiB for a Network. The maximum is 1 GiB, and the
	// minimum is 128.
	Receive int
	// Send is how many bytes Write may have written that the peer has not confirmed. Zero
	// means the same as for Receive. The maximum is 1 GiB, and the minimum is 1.
	Send int
}

// Limits and defaults of Buffers. The defaults are arbitrary. A connection of a Network
// has larger buffers, because a goroutine that blocks reads later than a callback.
const (
	defaultBuffer     = 128 << 10
	defaultConnBuffer = 512 << 10
	maxBuffer         = 1 << 30
	minRing           = 128
)

// withDefaults returns b with the given default for zero values. If a value is out of
// range, the error is a *verbs.ParamError.
func (b Buffers) withDefaults(size int) (Buffers, error) {
	for _, f := range []struct {
		name  string
		value *int
		low   int
	}{{"Buffers.Receive", &b.Receive, minRing}, {"Buffers.Send", &b.Send, 1}} {
		*f.value = orDefault(*f.value, size)
		if err := operr.CheckRange(f.name, *f.value, f.low, maxBuffer); err != nil {
			return b, err
		}
	}
	b.Receive += b.Receive & 1
	return b, nil
}

// orDefault returns v, or the default value if v is zero.
func orDefault[T comparable](v, value T) T {
	var zero T
	if v == zero {
		return value
	}
	return v
}

// spareReceives is the number of receives of a connection minus the number of credits of
// the peer. The spare receives are for messages that need no credits. Before this side
// has to answer, a peer may send six of them: two for its ring, two for the credits, and
// two to end the stream. The other two receives are a reserve.
const spareReceives = 8

// controlPlaces is how many messages other than data messages a side may have
// outstanding.
const controlPlaces = rsocket.ReservedCredits

// minInFlight is the smallest reactor.Config.MaxInFlight for streams. It leaves as many
// receives for data messages as for other messages. Arbitrary.
const minInFlight = 2 * spareReceives

// checkInFlight returns a *verbs.ParamError if reactor.Config.MaxInFlight is too small for
// streams.
func checkInFlight(n int) error {
	if n >= minInFlight {
		return nil
	}
	return &verbs.ParamError{Field: "MaxInFlight", Value: int64(n), Limit: minInFlight, Reason: fmt.Sprintf("the minimum for streams is %d", minInFlight)}
}

// creditsFor returns the number of credits that the peer of a new connection gets. The
// parameter maxInFlight is ConnInfo.MaxInFlight of the connection. If maxInFlight is too
// small, the error is a *verbs.ParamError.
func creditsFor(maxInFlight int) (uint16, error) {
	if err := checkInFlight(maxInFlight); err != nil {
		return 0, err
	}
	return uint16(min(maxInFlight-spareReceives, math.MaxInt16)), nil
}

// The largest sizes of the application's private data in bytes. They are the limits of
// the connection manager (56 and 196) without the 40 bytes of the protocol.
const (
	MaxRequestData = 56 - rsocket.HelloSize  // in a connection request
	MaxReplyData   = 196 - rsocket.HelloSize // in the reply to a request
)

// checkPrivateData returns a *verbs.ParamError if data has more than limit bytes.
func checkPrivateData(data []byte, limit int) error {
	return operr.CheckRange("private data", len(data), 0, limit)
}

// ListenOptions are the options of a listener and of its streams.
type ListenOptions struct {
	Buffers Buffers
	// Loop, TOS, ReuseAddr and V6Only are options of reactor.ListenOptions with the same names.
	Loop      *reactor.Loop
	TOS       uint8
	ReuseAddr bool
	V6Only    bool
}

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
		return nil, operr.Wrap("listen", err)
	}
	return e.Listen(addr, &reactor.ListenOptions{
		Handler: &acceptor{handler: h, buffers: buffers}, ImmediatesOnly: true,
		Loop: o.Loop, TOS: o.TOS, ReuseAddr: o.ReuseAddr, V6Only: o.V6Only,
	})
}

// An acceptor is the reactor.Handler of a listener and its connections.
type acceptor struct {
	connHandler
	handler Handler
	buffers Buffers
}

// notAStream is what a listener tells a peer that does not speak the protocol.
const notAStream = "this server takes streams: dial it with package stream, which speaks version 1 of the rsocket protocol"

// OnConnectRequest rejects requests of peers that do not speak the protocol.
func (a *acceptor) OnConnectRequest(req *reactor.ConnRequest) {
	peer, private, err := rsocket.DecodeHello(req.PrivateData())
	if err != nil {
		_ = req.Reject([]byte(notAStream)) // Reject fails if the peer has given up the request.
		return
	}
	a.handler.OnRequest(&Request{ConnRequest: req, acceptor: a, peer: peer, private: private})
}

// OnAcceptError passes the error to the Handler, and releases the memory of the stream.
func (a *acceptor) OnAcceptError(req *reactor.ConnRequest, err error) {
	s := req.UserData().(*Stream)
	s.release()
	a.handler.OnAcceptError(s.request, err)
}

// OnListenError passes the error to the Handler.
func (a *acceptor) OnListenError(ln *reactor.Listener, err error) { a.handler.OnListenError(ln, err) }

// OnOpen opens the stream of an accepted request.
func (a *acceptor) OnOpen(c *reactor.Conn) {
	s := c.UserData.(*Stream)
	s.request = nil
	s.open()
	a.handler.OnOpen(s)
}

// OnDialError is not called, because a listener does not dial.
func (a *acceptor) OnDialError(*reactor.Loop, netip.AddrPort, *reactor.DialOptions, error) {}

// A Request is the request of a peer for a stream. The application answers it once, with
// Accept, or with Reject of reactor.ConnRequest. Accept, PrivateData and UserData of this type
// replace those of ConnRequest, which the application must not call. Any goroutine may call the
// methods.
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
	// UserData is the first value of Stream.UserData.
	UserData any
	// Loop is the loop that gets the stream. Nil means that of Request.Loop, which is the loop
	// of ListenOptions.Loop or the one with the fewest connections.
	Loop *reactor.Loop
}

// UserData returns the AcceptOptions.UserData with which Accept was called, for OnAcceptError.
// A goroutine that did not call Accept must not call UserData before that.
func (r *Request) UserData() any {
	if s, ok := r.ConnRequest.UserData().(*Stream); ok {
		return s.UserData
	}
	return nil
}

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
		return operr.Wrap("accept", err)
	}
	s := newStream(r.acceptor.handler, r.acceptor.buffers, o.UserData)
	s.peer, s.private, s.request = r.peer, r.private, r
	return r.ConnRequest.Accept(&reactor.AcceptOptions{
		PrivateDataFor: s.privateData(o.PrivateData), UserData: s, Loop: o.Loop,
		ResponderResources: -1, InitiatorDepth: -1, // The protocol has no READs.
	})
}

// DialOptions are the options of a stream that this side opens. Dial copies them.
type DialOptions struct {
	Buffers Buffers
	// PrivateData is sent to the peer, at most MaxRequestData bytes. It may arrive padded
	// with zeros.
	PrivateData []byte
	// UserData is the first value of Stream.UserData.
	UserData any
	// Ctx, Loop, LocalAddr, Timeout, TOS and ReuseAddr are options of reactor.DialOptions with
	// the same names.
	Ctx       context.Context
	Loop      *reactor.Loop
	LocalAddr netip.AddrPort
	Timeout   time.Duration
	TOS       uint8
	ReuseAddr bool
}

// Dial begins to open a stream to addr, on a loop of the engine e. The Handler h gets the
// callbacks. A nil o means the defaults. If Dial returns nil, OnOpen or OnDialError
// follows. Any goroutine may call Dial. For Config.MaxInFlight of the engine see Listen.
//
// The errors are those of reactor.Engine.Dial, and a *verbs.ParamError for an option of
// this package that is out of range.
func Dial(e *reactor.Engine, addr netip.AddrPort, h Handler, o *DialOptions) error {
	if o == nil {
		o = &DialOptions{}
	}
	buffers, err := o.Buffers.withDefaults(defaultBuffer)
	if err != nil {
		return operr.Wrap("dial", err)
	}
	if err := checkPrivateData(o.PrivateData, MaxRequestData); err != nil {
		return operr.Wrap("dial", err)
	}
	d := &dialer{handler: h, addr: addr, options: o, stream: newStream(h, buffers, o.UserData)}
	return e.Dial(addr, &reactor.DialOptions{
		PrivateDataFor: d.stream.privateData(bytes.Clone(o.PrivateData)), Handler: d, ImmediatesOnly: true,
		ResponderResources: -1, InitiatorDepth: -1, // The protocol has no READs.
		Ctx: o.Ctx, Loop: o.Loop, LocalAddr: o.LocalAddr, Timeout: o.Timeout, TOS: o.TOS, ReuseAddr: o.ReuseAddr,
	})
}

// A dialer is the reactor.Handler of one call of Dial and its connection.
type dialer struct {
	connHandler
	handler Handler
	addr    netip.AddrPort
	options *DialOptions
	stream  *Stream
}

// OnOpen opens the stream if the reply of the peer has a Hello. Otherwise it ends the
// connection, and OnClose calls OnDialError.
func (d *dialer) OnOpen(c *reactor.Conn) {
	s := d.stream
	var err error
	if s.peer, s.private, err = rsocket.DecodeHello(c.Info().PeerPrivateData); err != nil {
		_ = c.Abort(fmt.Errorf("%w: a server of package reactor is dialed with reactor.Engine.Dial", err))
		return
	}
	s.open()
	d.handler.OnOpen(s)
}

// OnClose calls OnDialError if the stream was not opened.
func (d *dialer) OnClose(c *reactor.Conn, err error) {
	if d.stream.in == nil {
		d.OnDialError(c.Loop(), d.addr, nil, fmt.Errorf("dial %v: %w", d.addr, err))
		return
	}
	d.connHandler.OnClose(c, err)
}

// OnDialError passes the error to the Handler, and releases the memory of the stream.
func (d *dialer) OnDialError(l *reactor.Loop, addr netip.AddrPort, _ *reactor.DialOptions, err error) {
	d.stream.release()
	d.handler.OnDialError(l, addr, d.options, err)
}
