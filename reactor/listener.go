package reactor

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
)

// A Listener receives connection requests at one address. Its methods may be called from
// any goroutine.
type Listener struct {
	acceptor *acceptor
	id       *cm.ID
	addr     netip.AddrPort
}

// Listen makes a Listener at addr. Port 0 means any free port, and an unspecified address
// means all addresses of this host. Handler.OnConnectRequest is called for each request.
// Listen may be called from any goroutine, also before Start. The errors are those of
// cm.ID.Bind and cm.ID.Listen, and ErrShutdown.
func (e *Engine) Listen(addr netip.AddrPort) (*Listener, error) {
	ln, err := e.acceptor.listen(addr)
	return ln, operr.Wrap("listen", err)
}

// Addr returns the address of the listener, with the chosen port if Listen was called
// with port 0.
func (ln *Listener) Addr() netip.AddrPort { return ln.addr }

// Serves returns the addresses and paths at which the listener receives requests, and
// those at which it should receive requests and can not. After Close it returns nil. See
// cm.ID.Serves.
func (ln *Listener) Serves() []cm.ServedAddr { return ln.id.Serves() }

// Close stops listening and frees the address. Requests that were not passed to
// OnConnectRequest yet are rejected. Other requests, and connections, are not affected. A
// second Close does nothing.
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
	l.handler.OnListenError(ln, operr.Wrap("listen", cause))
}

// listen implements Engine.Listen.
func (a *acceptor) listen(addr netip.AddrPort) (*Listener, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing {
		return nil, ErrShutdown
	}
	id, err := a.channel.NewID(cm.TCP)
	if err != nil {
		return nil, err
	}
	if err = id.Bind(addr); err == nil {
		err = id.Listen(a.engine.cfg.Backlog)
	}
	if err != nil {
		return nil, firstError(err, id.Close())
	}
	ln := &Listener{acceptor: a, id: id, addr: id.LocalAddr()}
	a.listeners[ln] = struct{}{}
	return ln, nil
}
