package stream

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/cm"
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
	loop, err := reactor.NewLoop(p, loopHandler{network: n}, &n.cfg.Reactor)
	if err != nil {
		return nil, err
	}
	if n.loop, err = turns.New(loop); err != nil {
		_ = loop.Close() // The error of New is more important.
		return nil, operr.Wrap(op, err)
	}
	return n, nil
}

// Close closes all listeners and connections, and ends the loop. It waits until the peers
// have received everything, at most for NetworkConfig.CloseTimeout. The result is the
// first error of ending the loop. A second Close waits until the first has finished.
func (n *Network) Close() error {
	n.mu.Lock()
	if isClosed(n.closed) {
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
	if !isClosed(n.closed) {
		n.background.Go(f)
	}
}

// A loopHandler is the reactor.Handler of the loop of a Network.
type loopHandler struct {
	reactor.BaseHandler
	network *Network
}

// OnShutdown makes the calls of Accept fail.
func (h loopHandler) OnShutdown(*reactor.Loop) {
	h.network.mu.Lock()
	listeners := keys(h.network.listeners)
	h.network.mu.Unlock()
	for _, ln := range listeners {
		ln.fail(reactor.ErrShutdown)
	}
}

func keys[K comparable](m map[K]struct{}) []K {
	list := make([]K, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	return list
}

// add records an open connection. It returns false if the Network is closed.
func (n *Network) add(c *Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if isClosed(n.closed) {
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

// Stats returns the counters of the loop. Any goroutine may call it.
func (n *Network) Stats() reactor.Stats { return n.loop.Reactor().Stats() }
