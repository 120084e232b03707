package stream

import (
	"context"
	"net"
	"strings"
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/netaddr"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A Listener is a net.Listener whose connections are of the type *Conn. Any goroutine may
// call its methods.
type Listener struct {
	network  *Network
	ln       *reactor.Listener
	accepted chan *Conn    // open connections that wait for Accept; only the owner of the loop sends
	closed   chan struct{} // closed when the state is no longer listenerOpen

	mu    sync.Mutex
	state listenerState
	err   error // why Accept fails; set when closed is closed
}

// A listenerState says whether a Listener accepts connections.
type listenerState uint8

const (
	// listenerOpen: Accept waits for connections.
	listenerOpen listenerState = iota
	// listenerFailed: the reactor.Listener was closed by its device, or because the loop
	// has ended. Accept returns the reason. Close was not called.
	listenerFailed
	// listenerClosed: Close was called.
	listenerClosed
)

// Listen makes a Listener at an address, such as ":7471" or "192.0.2.1:7471". No host means
// all addresses: see cm.ListenAddr. For the network see DialContext. The error is a
// *net.OpError.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	addr, err := netaddr.Listen(context.Background(), network, address)
	if err != nil {
		return nil, opError("listen", nil, nil, err)
	}
	ln := &Listener{network: n, accepted: make(chan *Conn, n.cfg.Backlog), closed: make(chan struct{})}
	o := &ListenOptions{Buffers: n.cfg.Buffers, V6Only: strings.HasSuffix(network, "6")}
	n.loop.Lock() // No callback runs until ln is complete.
	ln.ln, err = Listen(n.loop.Reactor().Engine(), addr, callbacks{listener: ln}, o)
	n.loop.Unlock()
	if err != nil {
		return nil, opError("listen", nil, Addr{addr}, closedOfNet(err))
	}
	if !n.addListener(ln) {
		_ = ln.Close()
		return nil, opError("listen", nil, Addr{addr}, net.ErrClosed)
	}
	return ln, nil
}

// Accept waits for the next connection. After Close the error matches net.ErrClosed. If
// the device of the listener has failed, the error is the reason.
func (ln *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-ln.accepted:
		return c, nil
	case <-ln.closed:
		ln.mu.Lock()
		defer ln.mu.Unlock()
		return nil, opError("accept", nil, ln.Addr(), ln.err)
	}
}

// Addr returns the address of the listener, an Addr.
func (ln *Listener) Addr() net.Addr { return Addr{ln.ln.Addr()} }

// Close stops listening, and closes the connections that wait for Accept. The error is a
// *net.OpError. The error of a second call matches net.ErrClosed.
func (ln *Listener) Close() (err error) {
	switch ln.leaveOpen(listenerClosed, net.ErrClosed) {
	case listenerClosed:
		return opError("close", nil, ln.Addr(), net.ErrClosed)
	case listenerOpen:
		if err = ln.ln.Close(); err != nil {
			err = opError("close", nil, ln.Addr(), err)
		}
	}
	ln.closeAccepted()
	return err
}

// fail is called when the reactor.Listener was closed because of an error. The caller
// owns the loop.
func (ln *Listener) fail(err error) {
	if ln.leaveOpen(listenerFailed, err) == listenerOpen {
		ln.network.inBackground(ln.closeAccepted)
	}
}

// leaveOpen enters a later state, and returns the state before. The parameter err is the
// error for Accept.
func (ln *Listener) leaveOpen(to listenerState, err error) (before listenerState) {
	ln.mu.Lock()
	before = ln.state
	ln.state = max(ln.state, to)
	if before < to {
		ln.err = err
	}
	if before == listenerOpen {
		close(ln.closed)
	}
	ln.mu.Unlock()
	ln.network.removeListener(ln)
	return before
}

// closeAccepted closes the connections that wait for Accept.
func (ln *Listener) closeAccepted() {
	for {
		select {
		case c := <-ln.accepted:
			_ = c.Close() // The error does not matter, because nobody has used the connection.
		default:
			return
		}
	}
}

var _ net.Listener = (*Listener)(nil)
