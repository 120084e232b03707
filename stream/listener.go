package stream

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A Listener is a net.Listener whose connections are of the type *Conn. Any goroutine may
// call its methods.
type Listener struct {
	network  *Network
	ln       *reactor.Listener
	accepted chan *Conn   // open connections that wait for Accept
	waiting  atomic.Int64 // number of connections that open, or wait for Accept
	closed   chan struct{}
	once     sync.Once
}

// Listen makes a Listener at an address, such as ":7471" or "192.0.2.1:7471". For the
// network see DialContext. The error is a *net.OpError.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	addrs, err := resolve(context.Background(), network, address)
	if err != nil {
		return nil, opError("listen", nil, nil, err)
	}
	ln := &Listener{network: n, accepted: make(chan *Conn, n.cfg.Backlog), closed: make(chan struct{})}
	o := &ListenOptions{Buffers: n.cfg.Buffers, V6Only: network == "tcp6"}
	if ln.ln, err = Listen(n.loop.Reactor().Engine(), addrs[0], callbacks{listener: ln}, o); err != nil {
		return nil, opError("listen", nil, Addr{addrs[0]}, err)
	}
	n.mu.Lock()
	n.listeners[ln] = struct{}{}
	n.mu.Unlock()
	if isClosed(n.closed) { // Network.Close may have run before n.listeners had the listener.
		_ = ln.Close()
		return nil, opError("listen", nil, Addr{addrs[0]}, net.ErrClosed)
	}
	return ln, nil
}

// Accept waits for the next connection. After Close the error matches net.ErrClosed.
func (ln *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-ln.accepted:
		ln.waiting.Add(-1)
		return c, nil
	case <-ln.closed:
		return nil, opError("accept", nil, ln.Addr(), net.ErrClosed)
	}
}

// Addr returns the address of the listener, an Addr.
func (ln *Listener) Addr() net.Addr { return Addr{ln.ln.Addr()} }

// Close stops listening, and closes the connections that wait for Accept. The error of a
// second call matches net.ErrClosed.
func (ln *Listener) Close() error {
	err := opError("close", nil, ln.Addr(), net.ErrClosed)
	ln.once.Do(func() {
		err = ln.ln.Close()
		close(ln.closed)
		ln.network.mu.Lock()
		delete(ln.network.listeners, ln)
		ln.network.mu.Unlock()
		ln.closeAccepted()
	})
	return err
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
