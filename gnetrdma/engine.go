package gnetrdma

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// An engine has the event loops for RDMA of one server or client.
type engine struct {
	cfg      Config // with the defaults in place of zero values
	options  gnet.Options
	handler  gnet.EventHandler
	own      cm.Provider // provider that the engine closes, or nil
	reactor  *reactor.Engine
	loops    []*loop
	conns    atomic.Int64  // number of connections that are open for the handler
	accepted atomic.Uint32 // number of connections whose loop was chosen in turn
	stopping atomic.Bool   // true when no more connections are opened
	epoch    time.Time     // time at which the engine was made; deadlines count from it

	listeners []*reactor.Listener
	networks  []string       // network of each listener, such as "rdma"
	watch     sync.WaitGroup // waits for the goroutine that start has started

	// stop begins to shut down the server or the client. It is called when a callback
	// returns gnet.Shutdown, and when the loops have failed.
	stop func()

	mu  sync.Mutex
	err error // first error that made the engine stop
}

// newEngine makes an engine. The address is one at which it listens, or the zero value.
func newEngine(c *Config, h gnet.EventHandler, opts []gnet.Option, addr netip.Addr) (*engine, error) {
	e := &engine{handler: h, stop: func() {}, epoch: time.Now()}
	var err error
	if e.cfg, err = c.withDefaults(); err != nil {
		return nil, err
	}
	if e.options, err = loadOptions(opts); err != nil {
		return nil, err
	}
	p := e.cfg.Provider
	if p == nil {
		if p, err = provider.Open("auto", &provider.Config{Addr: addr}); err != nil {
			return nil, err
		}
		e.own = p
	}
	if e.reactor, err = reactor.New(p, reactor.BaseHandler{}, e.reactorConfig()); err != nil {
		return nil, errors.Join(err, e.closeProvider())
	}
	for i := range e.reactor.NumLoops() {
		e.loops = append(e.loops, newLoop(e, e.reactor.Loop(i)))
	}
	return e, nil
}

// listen makes the listeners. Requests of peers wait until start.
func (e *engine) listen(endpoints []endpoint) error {
	for _, p := range endpoints {
		h := &callbacks{engine: e}
		ln, err := stream.Listen(e.reactor, p.addr, h, &stream.ListenOptions{
			Buffers: e.cfg.Buffers, ReuseAddr: e.options.ReuseAddr, V6Only: p.network == "rdma6",
		})
		if err != nil {
			return err
		}
		h.addr = stream.Addr{AddrPort: ln.Addr()}
		e.listeners, e.networks = append(e.listeners, ln), append(e.networks, p.network)
	}
	return nil
}

// logStart logs the number of loops and the addresses, with the logger of gnet. If the
// parameter private is true, gnet has logged the loop and the address that only keep it
// running.
func (e *engine) logStart(private bool) {
	var addrs []string
	for i, ln := range e.listeners {
		addrs = append(addrs, e.networks[i]+"://"+ln.Addr().String())
	}
	note := ""
	if private {
		note = "; the loop of gnet and its UDP port only keep it running"
	}
	logging.Infof("Launching gnetrdma with %d event-loops, listening on: %s%s", len(e.loops), strings.Join(addrs, " | "), note)
}

// start runs the loops. After an error the caller calls discard.
func (e *engine) start() error {
	if err := e.reactor.Start(); err != nil {
		return err
	}
	e.watch.Go(func() {
		if err := e.reactor.Wait(); err != nil {
			e.fail(err)
		}
	})
	return nil
}

// boot runs on each loop before its callbacks.
func (e *engine) boot(*reactor.Loop) error {
	if e.options.LockOSThread {
		runtime.LockOSThread()
	}
	return nil
}

// shutdown runs on each loop after its callbacks.
func (e *engine) shutdown(l *reactor.Loop) { e.loops[l.Index()].end() }

// fail records an error and begins to stop.
func (e *engine) fail(err error) {
	e.mu.Lock()
	if e.err == nil {
		e.err = err
	}
	e.mu.Unlock()
	e.stop()
}

// dial begins to open a connection. If l is nil, the engine chooses the loop. The channel
// gets one result.
func (e *engine) dial(l *loop, addr netip.AddrPort, context any) (<-chan gnet.RegisteredResult, error) {
	c := newConn(e)
	c.context = context
	result := make(chan gnet.RegisteredResult, 1)
	c.result = result // From Dial on, c belongs to the loop.
	o := &stream.DialOptions{Buffers: e.cfg.Buffers, UserData: c}
	if l != nil {
		o.Loop = l.reactor
	}
	if err := stream.Dial(e.reactor, addr, &callbacks{engine: e}, o); err != nil {
		return nil, err
	}
	return result, nil
}

// closeConns closes all connections, and prevents new ones. It returns when OnClose was
// called for each. The loops were started, and the caller is not a callback of a loop.
func (e *engine) closeConns() {
	e.stopping.Store(true)
	for _, ln := range e.listeners {
		_ = ln.Close() // It fails if the device has failed: see OnListenError.
	}
	for _, l := range e.loops {
		closed := make(chan struct{})
		if l.enqueue(task{run: func() { l.closeConns(); close(closed) }}) == nil {
			<-closed
		}
	}
}

// end waits until all streams have ended after closeConns, and ends the loops. The result
// is the first error that made the engine stop.
func (e *engine) end() error {
	for _, l := range e.loops {
		<-l.drained
	}
	err := e.reactor.Shutdown(context.Background())
	e.watch.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
	return errors.Join(e.err, e.closeProvider())
}

// discard ends an engine for which start was not called or has failed.
func (e *engine) discard() error {
	return errors.Join(e.reactor.Shutdown(context.Background()), e.closeProvider())
}

// closeProvider closes the provider if the engine has opened it.
func (e *engine) closeProvider() error {
	if e.own == nil {
		return nil
	}
	return e.own.Close()
}

// drainTimeout returns how long a closed connection may send its output.
func (e *engine) drainTimeout() time.Duration {
	if t := e.cfg.Reactor.Limits.DrainTimeout; t > 0 {
		return t
	}
	return defaultDrainTimeout
}
