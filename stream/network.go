package stream

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/netaddr"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/turns"
)

// A Network opens streams as a net.Conn, and listens for them. It has one loop, and the
// connections of the loop. Any goroutine may call its methods.
//
// A goroutine that reads runs the loop itself for a short time before it sleeps: see
// NetworkConfig.SpinBudget.
type Network struct {
	loop   *turns.Loop
	cfg    NetworkConfig
	closed chan struct{} // closed when Close begins
	done   chan struct{} // closed when Close has finished

	mu         sync.Mutex
	listeners  map[*Listener]struct{} // listeners that accept connections
	conns      map[*Conn]struct{}     // connections for which OnClose was not called
	open       sync.WaitGroup         // counts the elements of conns
	background sync.WaitGroup         // counts the goroutines of inBackground
}

// A NetworkConfig configures a Network. The zero value means the defaults.
type NetworkConfig struct {
	// Buffers are the sizes of the buffers of each connection.
	Buffers Buffers
	// SpinBudget is how long a Read or Write that must wait polls the loop before it sleeps.
	// Polling makes round trips much shorter, but it uses a processor. A goroutine does not
	// poll while other goroutines sleep in a Read or Write. After polls without success it
	// polls for a shorter time. Zero means 200 µs. Negative means no polling.
	SpinBudget time.Duration
	// LocalAddr is the address from which Dial connects. The zero value means that the
	// provider chooses it.
	LocalAddr netip.Addr
	// Backlog is how many open connections of a Listener may wait for Accept. Further
	// requests are rejected. Requests that were accepted before, and whose connections open
	// when there is no room any more, end with a reset. Zero means 128. A negative value is
	// an error.
	Backlog int
	// CloseTimeout is how long Conn.Close waits until the peer has received everything.
	// Zero means 5s. A negative value is an error.
	CloseTimeout time.Duration
	// Reactor configures the loop. NumLoops must be 0 or 1, and the loop can not be pinned. If
	// MaxInFlight is zero, it means 256. CloseTimeout replaces Limits.DrainTimeout, and
	// SpinBudget replaces Idle and SpinBudget of the reactor, which EachLoop must not change.
	// Limits.Backlog counts requests that the loop has not fetched yet, and the Backlog above
	// connections.
	Reactor reactor.Config
}

// Defaults of NetworkConfig. They are arbitrary. defaultSpinBudget is longer than the
// round trip of a program that answers at once, on every path.
const (
	defaultSpinBudget   = 200 * time.Microsecond
	defaultBacklog      = 128
	defaultCloseTimeout = 5 * time.Second
	defaultInFlight     = 256
)

// setDefaults replaces zero values by the defaults, and checks the others.
func (c *NetworkConfig) setDefaults() (err error) {
	if c.Buffers, err = c.Buffers.withDefaults(defaultConnBuffer); err != nil {
		return err
	}
	if err := operr.CheckRange("Backlog", c.Backlog, 0, math.MaxInt); err != nil {
		return err
	}
	if err := operr.CheckRange("CloseTimeout", c.CloseTimeout, 0, math.MaxInt64); err != nil {
		return err
	}
	c.SpinBudget = orDefault(c.SpinBudget, defaultSpinBudget)
	c.Backlog = orDefault(c.Backlog, defaultBacklog)
	c.CloseTimeout = orDefault(c.CloseTimeout, defaultCloseTimeout)
	c.Reactor.Limits.DrainTimeout = c.CloseTimeout
	c.Reactor.Idle = reactor.IdleEvent // A goroutine that has to wait spins itself: see SpinBudget.
	c.Reactor.MaxInFlight = orDefault(c.Reactor.MaxInFlight, defaultInFlight)
	return checkInFlight(c.Reactor.MaxInFlight)
}

// New makes a Network for the devices of the provider p. The caller closes the Network,
// and then the provider. New copies cfg. A nil cfg means the defaults.
//
// A provider with verbs.Caps.ProgressManual can serve only one Network, and no engine
// beside it. The errors are those of reactor.NewLoop.
func New(p cm.Provider, cfg *NetworkConfig) (*Network, error) {
	const op = "create network"
	n := &Network{
		closed: make(chan struct{}), done: make(chan struct{}),
		listeners: map[*Listener]struct{}{}, conns: map[*Conn]struct{}{},
	}
	if cfg != nil {
		n.cfg = *cfg
	}
	if err := n.cfg.setDefaults(); err != nil {
		return nil, operr.Wrap(op, err)
	}
	// The end of the loop makes the calls of Accept fail.
	ofProgram := n.cfg.Reactor.OnShutdown
	n.cfg.Reactor.OnShutdown = func(l *reactor.Loop) {
		n.failListeners(reactor.ErrShutdown)
		if ofProgram != nil {
			ofProgram(l)
		}
	}
	loop, err := reactor.NewLoop(p, reactor.BaseHandler{}, &n.cfg.Reactor)
	if err != nil {
		return nil, err
	}
	if n.loop, err = turns.New(loop); err != nil {
		_ = loop.Close() // The error of New is more important.
		return nil, operr.Wrap(op, err)
	}
	return n, nil
}

// Dial is DialContext without a context.
func (n *Network) Dial(network, address string) (net.Conn, error) {
	return n.DialContext(context.Background(), network, address)
}

// DialContext opens a stream to an address, such as "192.0.2.1:7471" or "host:7471". The
// network is "tcp" or "rdma", which mean the same, or one of them with a 4 or 6 at its end, so
// that DialContext can be used in place of net.Dialer.DialContext. If a name has several
// addresses, they are tried in turn, those of IPv4 first. No host means this host: see
// cm.DialAddr. The error is a *net.OpError; when ctx is done, it contains ctx.Err(). If ctx has
// a deadline, Limits.ConnectTimeout of NetworkConfig.Reactor does not apply.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	addrs, err := netaddr.Dial(ctx, network, address)
	if err != nil {
		return nil, opError("dial", nil, nil, err)
	}
	for _, addr := range addrs {
		var c *Conn
		if c, err = n.dial(ctx, addr); err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, opError("dial", nil, Addr{addr}, ctx.Err())
		}
		err = opError("dial", nil, Addr{addr}, closedOfNet(err))
	}
	return nil, err
}

// dial opens a stream to one address.
func (n *Network) dial(ctx context.Context, addr netip.AddrPort) (*Conn, error) {
	n.loop.Lock()
	defer n.loop.Unlock()
	c := newConn(n)
	o := &DialOptions{Ctx: ctx, Buffers: n.cfg.Buffers, UserData: c}
	if end, ok := ctx.Deadline(); ok {
		o.Timeout = min(max(0, time.Until(end)), cm.MaxTimeout-time.Second) + time.Second // Ctx ends the dial before.
	}
	if n.cfg.LocalAddr.IsValid() {
		o.LocalAddr = netip.AddrPortFrom(n.cfg.LocalAddr, 0)
	}
	if err := Dial(n.loop.Reactor().Engine(), addr, callbacks{}, o); err != nil {
		return nil, err
	}
	n.loop.Sleep(c.opened, nil) // Until the stream is open, or the dial has failed or ended with ctx.
	if c.state == connFailed {
		return nil, c.endError
	}
	return c, nil // The peer may have closed the connection already.
}

// An Addr is the address of a listener or of one end of a Conn.
type Addr struct{ netip.AddrPort }

// Network returns "rdma".
func (Addr) Network() string { return "rdma" }

// Close closes all listeners and connections, and ends the loop. It waits until the peers
// have received everything, at most for NetworkConfig.CloseTimeout. The result is the
// first error of ending the loop. A second Close waits until the first has finished.
func (n *Network) Close() error {
	n.mu.Lock()
	if turns.IsClosed(n.closed) {
		n.mu.Unlock()
		<-n.done
		return nil
	}
	close(n.closed)
	defer close(n.done)
	listeners, conns := keys(n.listeners), keys(n.conns)
	n.mu.Unlock()
	for _, ln := range listeners {
		_ = ln.Close() // Close fails if another goroutine has closed the listener.
	}
	var wait sync.WaitGroup
	for _, c := range conns {
		wait.Go(func() { _ = c.Close() }) // The peer may have reset the connection.
	}
	wait.Wait()
	n.open.Wait() // Other goroutines may be in Close of a connection.
	n.background.Wait()
	return n.loop.Close()
}

// inBackground calls f on a goroutine, for which Close waits. If the Network is closed,
// inBackground does nothing: then Close does the work of f.
func (n *Network) inBackground(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !turns.IsClosed(n.closed) {
		n.background.Go(f)
	}
}

// add records an open connection. It returns false if the Network is closed.
func (n *Network) add(c *Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if turns.IsClosed(n.closed) {
		return false
	}
	n.conns[c] = struct{}{}
	n.open.Add(1)
	return true
}

func (n *Network) remove(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.conns[c]; ok {
		delete(n.conns, c)
		n.open.Done()
	}
}

// addListener records an open listener. It returns false if the Network is closed.
func (n *Network) addListener(ln *Listener) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if turns.IsClosed(n.closed) {
		return false
	}
	n.listeners[ln] = struct{}{}
	return true
}

func (n *Network) removeListener(ln *Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.listeners, ln)
}

// Engine returns the engine of the Network, for its counters: reactor.Engine.Stats and
// package metrics. Only the Network may stop it. Any goroutine may call Engine.
func (n *Network) Engine() *reactor.Engine { return n.loop.Reactor().Engine() }

// failListeners makes the calls of Accept fail.
func (n *Network) failListeners(err error) {
	n.mu.Lock()
	listeners := keys(n.listeners)
	n.mu.Unlock()
	for _, ln := range listeners {
		ln.fail(err)
	}
}

func keys[K comparable](m map[K]struct{}) []K {
	list := make([]K, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	return list
}

// callbacks is the Handler of the connections of a Network. The UserData of a Stream is
// its Conn.
type callbacks struct {
	BaseHandler
	listener *Listener // listener of accepted connections, or nil
}

// OnRequest accepts the request if the listener has room for the connection. Connections
// that are being opened take no room, because their peers may never confirm the reply.
func (cb callbacks) OnRequest(r *Request) {
	ln := cb.listener
	if len(ln.accepted) == cap(ln.accepted) || turns.IsClosed(ln.closed) {
		_ = r.Reject([]byte("too many connections wait for Accept")) // Reject fails if the peer has given up the request.
		return
	}
	_ = r.Accept(&AcceptOptions{UserData: newConn(ln.network)}) // If Accept fails, no connection opens.
}

// OnListenError makes Accept return the error.
func (cb callbacks) OnListenError(_ *reactor.Listener, err error) { cb.listener.fail(err) }

// OnOpen passes the connection to Dial or Accept. If the listener has no room for it, the
// connection ends.
func (cb callbacks) OnOpen(s *Stream) {
	c := connOf(s)
	opened := c.open(s)
	if cb.listener == nil {
		c.loop.Wake(c.opened)
		return
	}
	if !opened {
		return // The Network is closing.
	}
	select {
	case cb.listener.accepted <- c:
	default: // More connections were being opened than the listener has room for.
		_ = s.Abort(nil) // Abort fails if the connection is ending already.
		return
	}
	if turns.IsClosed(cb.listener.closed) {
		c.network.inBackground(cb.listener.closeAccepted)
	}
}

// OnDialError ends the wait of Dial.
func (callbacks) OnDialError(_ *reactor.Loop, _ netip.AddrPort, o *DialOptions, err error) {
	o.UserData.(*Conn).dialFailed(errors.Unwrap(err)) // without the address
}

// OnData ends the wait of a Read.
func (callbacks) OnData(s *Stream) { connOf(s).wakeReader() }

// OnEnd ends the wait of a Read.
func (callbacks) OnEnd(s *Stream) { connOf(s).wakeReader() }

// OnWritable ends the wait of a Write.
func (callbacks) OnWritable(s *Stream) { connOf(s).wakeWriter() }

// OnClose ends all waits.
func (callbacks) OnClose(s *Stream, err error) { connOf(s).end(err) }

// connOf returns the Conn of a stream of a Network.
func connOf(s *Stream) *Conn { return s.UserData.(*Conn) }
