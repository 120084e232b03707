package gnetrdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// Run is gnet.Run for an address of RDMA or of gnet. An address of RDMA is, for example,
// "rdma://:7471", "rdma://host:7471", "rdma4://:7471" or "rdma6://[::1]:7471". Run
// returns when the engine has ended: after gnet.Engine.Stop, or when a callback returns
// gnet.Shutdown. The result is then nil.
//
// Other errors are those of gnet.Run, of provider.Open, of reactor.New and stream.Listen,
// and the reason why the event loops have failed.
func Run(h gnet.EventHandler, protoAddr string, opts ...gnet.Option) error {
	return new(Config).Run(h, protoAddr, opts...)
}

// Rotate is Run for several addresses, as gnet.Rotate. Addresses of RDMA and of gnet may
// be mixed.
func Rotate(h gnet.EventHandler, addrs []string, opts ...gnet.Option) error {
	return new(Config).Rotate(h, addrs, opts...)
}

// CountConnections returns the number of connections of an engine that OnBoot has got
// from Run or Rotate: those of RDMA, and those that gnet.Engine.CountConnections counts.
// It is -1 if the engine has ended. Any goroutine may call it.
func CountConnections(e gnet.Engine) int {
	count := e.CountConnections()
	if own, ok := engines.Load(e); ok && count >= 0 {
		count += int(own.(*engine).conns.Load())
	}
	return count
}

// Reactor returns the engine of package reactor that serves the addresses of RDMA of an engine
// that OnBoot has got from Run or Rotate. It is for counters: reactor.Engine.Stats, and package
// metrics. Only this package may stop it. Reactor returns nil if there are no addresses of RDMA,
// or if the engine has ended. Any goroutine may call it.
func Reactor(e gnet.Engine) *reactor.Engine {
	if own, ok := engines.Load(e); ok {
		return own.(*engine).reactor
	}
	return nil
}

// engines has the engine for each gnet.Engine of a running Run or Rotate. It is
// package-level state, because a gnet.Engine is the only thing that OnBoot passes to the
// program, and it has no field for a value of this package.
var engines sync.Map

// Run is the function Run with the options in c.
func (c *Config) Run(h gnet.EventHandler, protoAddr string, opts ...gnet.Option) error {
	return c.Rotate(h, []string{protoAddr}, opts...)
}

// Rotate is the function Rotate with the options in c.
func (c *Config) Rotate(h gnet.EventHandler, addrs []string, opts ...gnet.Option) error {
	endpoints, others, err := splitAddrs(addrs)
	if err != nil {
		return err
	}
	if len(endpoints) == 0 {
		return gnet.Rotate(h, others, opts...)
	}
	e, err := newEngine(c, h, opts, commonAddr(endpoints))
	if err != nil {
		return err
	}
	if err := e.listen(endpoints); err != nil {
		return errors.Join(err, e.discard())
	}
	return e.serve(others, opts)
}

// commonAddr returns the IP address of the endpoints if they have the same one.
// Otherwise it returns the zero value.
func commonAddr(endpoints []endpoint) netip.Addr {
	addr := endpoints[0].addr.Addr()
	for _, p := range endpoints {
		if p.addr.Addr() != addr {
			return netip.Addr{}
		}
	}
	return addr
}

// serve runs an engine of gnet until it stops, and with it the loops of e. The handler
// can stop a gnet.Engine only if it belongs to a running engine of gnet. If the program
// has no addresses of gnet, the engine of gnet listens at a private address.
func (e *engine) serve(addrs []string, opts []gnet.Option) error {
	b := &bridge{EventHandler: e.handler, engine: e}
	opts = slices.Clone(opts)
	if len(addrs) == 0 {
		b.private = true
		addrs = []string{"udp://" + privateAddr}
		opts = append(opts, gnet.WithMulticore(false), gnet.WithNumEventLoop(1))
	}
	opts = append(opts, gnet.WithTicker(true)) // see bridge.OnTick
	err := gnet.Rotate(b, addrs, opts...)
	if b.private && err != nil {
		err = fmt.Errorf("gnetrdma: gnet needs a listener besides those of RDMA, and fails at %s: %w", addrs[0], err)
	}
	engines.Delete(b.gnet)
	if !b.stop() {
		return errors.Join(err, b.err, e.discard())
	}
	return errors.Join(err, e.end())
}

// A bridge is the handler of the engine of gnet that runs beside the loops for RDMA. It
// passes the callbacks to the handler of the program, and starts and stops the loops for
// RDMA.
type bridge struct {
	gnet.EventHandler
	engine  *engine
	gnet    gnet.Engine
	private bool // true if gnet listens only at privateAddr

	mu    sync.Mutex
	state bridgeState
	err   error // why the loops could not be started
}

type bridgeState uint8

const (
	// bridgeWaiting: gnet has not called OnTick yet. The method start leads to
	// bridgeRunning, unless the loops for RDMA can not be started. The method stop leads to
	// bridgeStopped.
	bridgeWaiting bridgeState = iota
	// bridgeRunning: the loops for RDMA were started. This state is the last one, because
	// the method stop only closes their connections.
	bridgeRunning
	// bridgeStopped: gnet has stopped, so the loops for RDMA must not be started any more.
	// This state is the last one.
	bridgeStopped
)

// idleTick is the time between two calls of OnTick if the program has not asked for them.
const idleTick = 24 * time.Hour

// OnBoot calls OnBoot of the handler.
func (b *bridge) OnBoot(eng gnet.Engine) gnet.Action {
	b.gnet = eng
	b.engine.stop = func() {
		stopped, cancel := context.WithCancel(context.Background())
		cancel()
		_ = eng.Stop(stopped) // With this context, Stop begins to stop and does not wait.
	}
	engines.Store(eng, b.engine)
	if b.private {
		closePrivate(eng)
	}
	b.engine.logStart(b.private)
	return b.EventHandler.OnBoot(eng)
}

// OnTick is called when gnet has started its loops. Only then may a callback use the
// gnet.Engine, so only then the loops for RDMA are started.
func (b *bridge) OnTick() (time.Duration, gnet.Action) {
	if !b.start() {
		return idleTick, gnet.Shutdown
	}
	if !b.engine.options.Ticker {
		return idleTick, gnet.None
	}
	return b.EventHandler.OnTick()
}

// privateAddr is the address at which gnet listens if the program has only addresses of RDMA:
// a port for UDP that the system chooses. A gnet.Engine needs a listener, or its methods
// return an error. A Unix socket would leave a file behind when the process is killed, because
// gnet knows no abstract names. Nobody sends to the address: see closePrivate. The handler of
// the program gets no callbacks for it.
const privateAddr = "127.0.0.1:0"

// isPrivate reports whether c belongs to privateAddr.
func (b *bridge) isPrivate(c gnet.Conn) bool {
	return b.private && c.LocalAddr().Network() == "udp" && c.LocalAddr().String() == privateAddr
}

// start starts the loops for RDMA at the first call. It returns true if they run.
func (b *bridge) start() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == bridgeWaiting {
		if b.err = b.engine.start(); b.err == nil {
			b.state = bridgeRunning
		}
	}
	return b.state == bridgeRunning
}

// stop prevents the start of the loops for RDMA. If they were started, it closes their
// connections and returns true.
func (b *bridge) stop() (started bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != bridgeRunning {
		b.state = bridgeStopped
		return false
	}
	b.engine.closeConns()
	return true
}

// OnShutdown closes the connections of RDMA, and tells the handler. The comment of
// gnet.EventHandler promises this order.
func (b *bridge) OnShutdown(eng gnet.Engine) {
	b.stop()
	b.EventHandler.OnShutdown(eng)
}

// OnOpen passes the call to the handler of the program. It closes connections to the
// private address.
func (b *bridge) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	if b.isPrivate(c) {
		return nil, gnet.Close
	}
	return b.EventHandler.OnOpen(c)
}

// OnTraffic passes the call to the handler of the program, unless the bytes were sent to
// the private address.
func (b *bridge) OnTraffic(c gnet.Conn) gnet.Action {
	if b.isPrivate(c) {
		return gnet.Close
	}
	return b.EventHandler.OnTraffic(c)
}

// OnClose passes the call to the handler of the program, unless the connection is one to
// the private address.
func (b *bridge) OnClose(c gnet.Conn, err error) gnet.Action {
	if b.isPrivate(c) {
		return gnet.None
	}
	return b.EventHandler.OnClose(c, err)
}
