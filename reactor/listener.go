package reactor

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Listener takes connection requests at one address. Its methods may be called
// from any goroutine.
type Listener struct {
	acceptor *acceptor
	id       *cm.ID
	addr     netip.AddrPort
}

// Listen starts taking requests at addr; port 0 means any free one, and an
// unspecified address every one of this host. Requests are brought to
// Handler.OnConnectRequest. It may be called before Start, and from any
// goroutine. The errors are those of cm.ID.Bind, and ErrShutdown.
func (e *Engine) Listen(addr netip.AddrPort) (*Listener, error) {
	ln, err := e.acceptor.listen(addr)
	return ln, verbs.Wrap("listen", err)
}

// Listen is Engine.Listen.
func (l *Loop) Listen(addr netip.AddrPort) (*Listener, error) { return l.engine.Listen(addr) }

// Addr is the address that is listened at, with the port that was chosen.
func (ln *Listener) Addr() netip.AddrPort { return ln.addr }

// Serves returns the addresses and paths at which the listener takes requests, and
// those at which it should and can not. After Close it returns nil. See cm.ID.Serves.
func (ln *Listener) Serves() []cm.ServedAddr { return ln.id.Serves() }

// Close stops listening, and the address is free again. Requests that wait to be
// looked at are refused; those that OnConnectRequest has seen, and connections,
// live on. A second Close does nothing.
func (ln *Listener) Close() error {
	d := ln.acceptor
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.listeners, ln)
	return verbs.Wrap("close listener", ln.id.Close())
}

// closeListener closes a listener whose device can not be used any more, and reports
// the reason to the application.
func (l *Loop) closeListener(ln *Listener, why error) {
	l.recordError(ln.Close())
	l.handler.OnListenError(ln, verbs.Wrap("listen", why))
}

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
