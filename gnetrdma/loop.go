package gnetrdma

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// A loop is a gnet.EventLoop on a loop of package reactor.
type loop struct {
	engine  *engine
	reactor *reactor.Loop
	buffer  []byte // input of the connection whose OnTraffic is running

	// Only the goroutine of the loop uses the next fields.
	open    map[*conn]struct{} // connections for which OnOpen was called, and OnClose was not
	streams int                // number of streams that have not ended
	closing bool               // true after closeConns
	// drained is closed when no streams are left after closeConns, and at the end.
	drained chan struct{}

	tasks taskQueue
	once  sync.Once // makes sure that drained is closed only once
}

func newLoop(e *engine, r *reactor.Loop) *loop {
	l := &loop{
		engine: e, reactor: r,
		buffer: make([]byte, e.options.ReadBufferCap),
		open:   map[*conn]struct{}{}, drained: make(chan struct{}),
	}
	l.tasks.run = l.runTasks
	return l
}

// Register opens a connection to addr on the loop. The networks of TCP mean those of
// RDMA, so that a handler may use the addresses that it uses with gnet. The value of
// gnet.NewContext becomes the context of the connection. The channel gets one result,
// after OnOpen. Any goroutine may call Register.
func (l *loop) Register(ctx context.Context, addr net.Addr) (<-chan gnet.RegisteredResult, error) {
	if l.engine.stopping.Load() {
		return nil, gneterrors.ErrEngineInShutdown
	}
	if addr == nil {
		return nil, gneterrors.ErrInvalidNetworkAddress
	}
	peer, err := resolvePeer(addr.Network(), addr.String())
	if err != nil {
		return nil, err
	}
	return l.engine.dial(l, peer, gnet.FromContext(ctx))
}

// Enroll is not supported, because a connection of package net has no RDMA connection.
func (l *loop) Enroll(_ context.Context, c net.Conn) (<-chan gnet.RegisteredResult, error) {
	switch {
	case l.engine.stopping.Load():
		return nil, gneterrors.ErrEngineInShutdown
	case c == nil:
		return nil, gneterrors.ErrInvalidNetConn
	}
	return nil, gneterrors.ErrUnsupportedOp
}

// Execute runs a task on the loop. Any goroutine may call it.
func (l *loop) Execute(ctx context.Context, r gnet.Runnable) error {
	return l.Schedule(ctx, r, 0)
}

// Schedule runs a task on the loop after a delay. A task that is waiting when the loop
// ends does not run. Any goroutine may call it.
func (l *loop) Schedule(ctx context.Context, r gnet.Runnable, delay time.Duration) error {
	if l.engine.stopping.Load() {
		return gneterrors.ErrEngineInShutdown
	}
	if r == nil {
		return gneterrors.ErrNilRunnable
	}
	run := func() { _ = r.Run(ctx) } // gnet ignores the error, too
	if delay <= 0 {
		return l.enqueue(task{run: run})
	}
	return l.enqueue(task{run: func() { l.reactor.After(delay, run) }})
}

// Close closes a connection of the loop at once. OnClose runs before it returns. Only
// callbacks of the loop may call it.
func (l *loop) Close(c gnet.Conn) error {
	own, ok := c.(*conn)
	if !ok || own.loop != l {
		return gneterrors.ErrUnsupportedOp
	}
	return own.close(nil)
}

// dial begins to open a connection. If l is nil, the engine chooses the loop. The channel
// gets one result.
func (e *engine) dial(l *loop, addr netip.AddrPort, context any) (<-chan gnet.RegisteredResult, error) {
	c := newConn(e)
	c.context = context
	result := make(chan gnet.RegisteredResult, 1)
	c.result = result // From Dial on, c belongs to the loop.
	o := &stream.DialOptions{Buffers: e.cfg.Buffers, Context: c}
	if l != nil {
		o.Loop = l.reactor
	}
	if err := stream.Dial(e.reactor, addr, &callbacks{engine: e}, o); err != nil {
		return nil, err
	}
	return result, nil
}

// closeConns closes all connections of the loop, and prevents new ones.
func (l *loop) closeConns() {
	l.closing = true
	for c := range l.open {
		_ = c.close(nil) // The result is the action, and the engine is stopping already.
	}
	l.checkDrained()
}

// streamEnded is called when a stream of the loop has ended.
func (l *loop) streamEnded() {
	l.streams--
	l.checkDrained()
}

func (l *loop) checkDrained() {
	if l.closing && l.streams == 0 {
		l.once.Do(func() { close(l.drained) })
	}
}

// end is called when the loop has ended.
func (l *loop) end() {
	l.endTasks()
	l.once.Do(func() { close(l.drained) })
}
