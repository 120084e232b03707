package reactor

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Listener receives connection requests at one address. Its methods may be called from
// any goroutine.
type Listener struct {
	acceptor *acceptor
	id       *cm.ID
	addr     netip.AddrPort
	options  ListenOptions
	handler  Handler // callbacks of the listener and of its connections
}

// ListenOptions are the options of a listener and of the connections that it accepts.
// Both sides use the retry count of the dialing side.
type ListenOptions struct {
	// Handler gets the callbacks of the listener and its connections. Nil means the
	// Handler of the engine.
	Handler Handler
	// Loop is the loop that gets the connections, unless AcceptOptions.Loop is set. Nil means
	// for each connection the loop with the fewest ones. OnConnectRequest is called on the loop
	// with index 0.
	Loop *Loop
	// AckTimeout replaces Config.Transport.AckTimeout, unless it is zero.
	AckTimeout time.Duration
	// RNRRetryCount replaces Config.Transport.RNRRetryCount, unless it is zero. Negative means no
	// retries.
	RNRRetryCount int
	// ImmediatesOnly is DialOptions.ImmediatesOnly, for the connections of the listener.
	ImmediatesOnly bool
	// OwnRecvQueue is DialOptions.OwnRecvQueue, for the connections of the listener.
	OwnRecvQueue bool
	// MessageTime is DialOptions.MessageTime, for the connections of the listener. See there
	// which time it is.
	MessageTime bool
	// TOS is the type of service of this side's packets. With IPv6 this is the traffic
	// class. Zero means the provider's default. DialOptions.TOS of the dialing side has
	// precedence. Only provider/soft and iWARP devices use ListenOptions.TOS. Source:
	// rdma_set_option(3).
	TOS uint8
	// ReuseAddr lets other IDs that also set the option share the address. At most one of
	// them can listen. Source: rdma_set_option(3), see cm.ID.SetReuseAddr.
	ReuseAddr bool
	// V6Only makes a listener at :: receive requests over IPv6 only. Without the option
	// it also receives requests over IPv4. Source: rdma_set_option(3), see
	// cm.ID.SetAFOnly.
	V6Only bool
}

// Listen makes a Listener at addr. Port 0 means any free port. An unspecified address
// means all addresses of this host. Listen copies o. A nil o means the defaults. Any
// goroutine may call Listen, also before Start. cm.ListenAddr returns the address for a text
// of a user.
//
// The errors are those of cm.ID.Bind and cm.ID.Listen, *verbs.ParamError, ErrShutdown,
// ErrClosed, and verbs.ErrForeign for a loop of another engine.
func (e *Engine) Listen(addr netip.AddrPort, o *ListenOptions) (*Listener, error) {
	if o == nil {
		o = &ListenOptions{}
	}
	ln, err := e.acceptor.listen(addr, o)
	return ln, operr.Wrap("listen", operr.Cause(err))
}

// check returns a *verbs.ParamError for the first option that is out of range.
func (o *ListenOptions) check() error {
	if err := operr.CheckRange("ACK timeout", o.AckTimeout, 0, maxAckTimeout); err != nil {
		return err
	}
	return operr.CheckRange("RNR retry count", o.RNRRetryCount, -1, verbs.MaxRetry)
}

// listen implements Engine.Listen.
func (a *acceptor) listen(addr netip.AddrPort, o *ListenOptions) (*Listener, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Loop != nil && !a.engine.owns(o.Loop) {
		return nil, errForeignLoop
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing {
		return nil, a.engine.stoppedError()
	}
	id, err := a.channel.NewID(cm.TCP)
	if err != nil {
		return nil, err
	}
	ln := &Listener{acceptor: a, id: id, options: *o, handler: handlerOr(o.Handler, a.engine.handler)}
	if err := ln.open(addr, a.engine.cfg.Limits.Backlog); err != nil {
		return nil, firstError(err, id.Close())
	}
	a.listeners[ln] = a.nextSerial()
	return ln, nil
}

// open sets the options of the listener and begins to listen.
func (ln *Listener) open(addr netip.AddrPort, backlog int) error {
	ln.id.SetUserData(ln)
	if err := setOptions(ln.id, ln.options.TOS, ln.options.ReuseAddr); err != nil {
		return err
	}
	if ln.options.V6Only {
		if err := ln.id.SetAFOnly(true); err != nil {
			return err
		}
	}
	if err := ln.id.Bind(addr); err != nil {
		return err
	}
	if err := ln.id.Listen(backlog); err != nil {
		return err
	}
	ln.addr = ln.id.LocalAddr()
	return nil
}

// Addr returns the address of the listener, with the chosen port. A wildcard, such as
// 0.0.0.0, stays a wildcard, which Dial does not accept.
func (ln *Listener) Addr() netip.AddrPort { return ln.addr }

// Serves returns the addresses at which the listener should receive requests. If it can
// not receive requests at an address, cm.ServedAddr.Err is the reason. On the soft device,
// cm.ServedAddr.Path names the path. After Close, Serves returns nil. See cm.ID.Serves.
func (ln *Listener) Serves() []cm.ServedAddr { return ln.id.Serves() }

// Close stops listening and frees the address. Requests that still wait for
// OnConnectRequest are rejected. Other requests, and connections, are not affected. A
// second Close does nothing. The errors are those of cm.ID.Close.
func (ln *Listener) Close() error {
	a := ln.acceptor
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.listeners, ln)
	return operr.Wrap("close listener", ln.id.Close())
}

// closeListener closes a listener whose device can not be used any more, and calls
// OnListenError with the reason.
func (l *Loop) closeListener(ln *Listener, cause error) {
	l.recordError(ln.Close())
	l.onListenError(ln, operr.Wrap("listen", cause))
}
