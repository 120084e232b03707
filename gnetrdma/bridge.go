package gnetrdma

import (
	"context"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// A bridge is the handler of the engine of gnet that runs beside the loops for RDMA. It
// passes the callbacks to the handler of the program, and starts and stops the loops for
// RDMA.
type bridge struct {
	gnet.EventHandler
	engine  *engine
	gnet    gnet.Engine
	private *privateAddr // address that keeps gnet running; nil if gnet has addresses of the program

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
	if b.private.has(c) {
		return nil, gnet.Close
	}
	return b.EventHandler.OnOpen(c)
}

// OnTraffic passes the call to the handler of the program, unless the bytes were sent to
// the private address.
func (b *bridge) OnTraffic(c gnet.Conn) gnet.Action {
	if b.private.has(c) {
		return gnet.Close
	}
	return b.EventHandler.OnTraffic(c)
}

// OnClose passes the call to the handler of the program, unless the connection is one to
// the private address.
func (b *bridge) OnClose(c gnet.Conn, err error) gnet.Action {
	if b.private.has(c) {
		return gnet.None
	}
	return b.EventHandler.OnClose(c, err)
}
