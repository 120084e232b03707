package gnetrdma

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Client is a gnet.Client for RDMA. Any goroutine may call its methods. Dial and
// DialContext must not be called in callbacks, because they wait for OnOpen. Callbacks
// call EventLoop.Register instead.
type Client struct {
	engine *engine
	ticker sync.WaitGroup // waits for the goroutine of tick
	done   chan struct{}  // closed by Stop, which ends tick

	changing sync.Mutex    // held by Start and Stop; only they change the next fields
	state    atomic.Uint32 // a clientState
	err      error         // result of Stop
}

// A clientState says whether the event loops of a Client run.
type clientState uint32

const (
	// clientNew: NewClient has returned, and no event loop runs. Dial returns
	// ErrNotStarted. Start leads to clientRunning, or to clientStopped if it fails. Stop
	// leads to clientStopped.
	clientNew clientState = iota
	// clientRunning: Start has returned nil, or is about to. The event loops run until
	// Stop or their failure. Stop leads to clientStopped.
	clientRunning
	// clientStopped: Stop was called, or Start has failed. Dial fails with
	// errors.ErrEngineInShutdown of gnet, and Start with verbs.ErrState. This state is the
	// last one.
	clientStopped
)

// NewClient makes a client for a handler. The caller then calls Start and Stop. The
// errors are those of provider.Open and reactor.New.
func NewClient(h gnet.EventHandler, opts ...gnet.Option) (*Client, error) {
	return new(Config).NewClient(h, opts...)
}

// Reactor returns the engine of package reactor that has the connections. It is for counters, as
// the function Reactor. Only Stop may stop it.
func (c *Client) Reactor() *reactor.Engine { return c.engine.reactor }

// NewClient is the function NewClient with the options in c.
func (c *Config) NewClient(h gnet.EventHandler, opts ...gnet.Option) (*Client, error) {
	e, err := newEngine(c, h, opts, netip.Addr{})
	if err != nil {
		return nil, err
	}
	e.stop = func() { e.stopping.Store(true) }
	return &Client{engine: e, done: make(chan struct{})}, nil
}

// Start calls OnBoot and starts the event loops. The gnet.Engine of OnBoot is empty, and
// the result of OnBoot is ignored, as in gnet. If the loops can not be started, the
// client is stopped. After an earlier Start or Stop the error matches verbs.ErrState.
func (c *Client) Start() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	if c.current() != clientNew {
		return fmt.Errorf("gnetrdma: start client: %w: the client was started or stopped before", verbs.ErrState)
	}
	c.engine.handler.OnBoot(gnet.Engine{})
	if err := c.engine.start(); err != nil {
		c.enter(clientStopped)
		return errors.Join(err, c.engine.discard())
	}
	c.enter(clientRunning)
	if c.engine.options.Ticker {
		c.ticker.Go(c.tick)
	}
	return nil
}

func (c *Client) current() clientState { return clientState(c.state.Load()) }

func (c *Client) enter(s clientState) { c.state.Store(uint32(s)) }

// tick calls OnTick until Stop, or until OnTick returns gnet.Shutdown. Then it closes all
// connections.
func (c *Client) tick() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-timer.C:
		}
		delay, action := c.engine.handler.OnTick()
		if action == gnet.Shutdown {
			c.engine.closeConns()
			return
		}
		timer.Reset(delay)
	}
}

// Stop calls OnShutdown and closes all connections. It returns when the event loops have
// ended. The result is the first error that made a loop end. A second call only returns
// the result of the first. If Start was not called or has failed, Stop calls no callback.
// Callbacks must not call Stop.
func (c *Client) Stop() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	before := c.current()
	c.enter(clientStopped)
	switch before {
	case clientNew:
		c.err = c.engine.discard()
	case clientRunning:
		c.err = c.end()
	}
	return c.err
}

// end is Stop for a client that is running.
func (c *Client) end() error {
	close(c.done)
	c.ticker.Wait()
	c.engine.handler.OnShutdown(gnet.Engine{})
	c.engine.closeConns()
	return c.engine.end()
}

// Dial opens a connection to an address such as "192.0.2.1:7471", and waits for OnOpen.
// The network is "rdma", "rdma4", "rdma6", or a network of TCP, which means the same. The
// errors are those of stream.Dial and OnDialError of stream.Handler. Before Start the
// error is ErrNotStarted. After Stop, or after a callback has returned gnet.Shutdown, it
// is errors.ErrEngineInShutdown of gnet.
func (c *Client) Dial(network, address string) (gnet.Conn, error) {
	return c.DialContext(network, address, nil)
}

// DialContext is Dial with a value that Context of the gnet.Conn returns.
func (c *Client) DialContext(network, address string, ctx any) (gnet.Conn, error) {
	switch {
	case c.current() == clientNew:
		return nil, ErrNotStarted
	case c.current() == clientStopped, c.engine.stopping.Load():
		return nil, gneterrors.ErrEngineInShutdown
	}
	addr, err := resolvePeer(network, address)
	if err != nil {
		return nil, err
	}
	results, err := c.engine.dial(nil, addr, ctx)
	if err != nil {
		return nil, err
	}
	result := <-results
	return result.Conn, result.Err
}

// Enroll is not supported, because a connection of package net has no RDMA connection.
func (c *Client) Enroll(conn net.Conn) (gnet.Conn, error) { return c.EnrollContext(conn, nil) }

// EnrollContext is not supported, as Enroll.
func (c *Client) EnrollContext(net.Conn, any) (gnet.Conn, error) {
	return nil, gneterrors.ErrUnsupportedOp
}
