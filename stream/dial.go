package stream

import (
	"bytes"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
)

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
		return err
	}
	if err := checkPrivateData(o.PrivateData, MaxRequestData); err != nil {
		return err
	}
	d := &dialer{handler: h, addr: addr, options: o, stream: newStream(h, buffers, o.Context)}
	return e.Dial(addr, &reactor.DialOptions{
		PrivateDataFor: d.stream.privateData(bytes.Clone(o.PrivateData)), Handler: d, ImmediatesOnly: true,
		ResponderResources: -1, InitiatorDepth: -1, // The protocol has no READs.
		Loop: o.Loop, LocalAddr: o.LocalAddr, Timeout: o.Timeout, TOS: o.TOS, ReuseAddr: o.ReuseAddr,
	})
}

// A dialer is the reactor.ConnHandler of one call of Dial and its connection.
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
	if s.peer, s.private, err = rsocket.DecodeHello(c.PeerPrivateData()); err != nil {
		_ = c.Abort(err)
		return
	}
	s.open()
	d.handler.OnOpen(s)
}

// OnClose calls OnDialError if the stream was not opened.
func (d *dialer) OnClose(c *reactor.Conn, err error) {
	if d.stream.in == nil {
		d.OnDialError(nil, &reactor.DialError{Addr: d.addr, Err: err})
		return
	}
	d.connHandler.OnClose(c, err)
}

// OnDialError passes the error to the Handler, and releases the memory of the stream.
func (d *dialer) OnDialError(_ *reactor.DialOptions, err error) {
	d.stream.release()
	d.handler.OnDialError(d.options, err)
}
