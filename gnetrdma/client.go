package gnetrdma

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
)

// A Client is a gnet.Client for RDMA. Any goroutine may call its methods. Dial and
// DialContext must not be called in callbacks, because they wait for OnOpen. Callbacks
// call EventLoop.Register instead.
type Client struct {
	engine *engine
	ticker sync.WaitGroup
	done   chan struct{} // closed by Stop
	stop   func() error  // does the work of Stop once

	mu    sync.Mutex
	state clientState
}

// A clientState says whether the event loops of a Client run.
type clientState uint8

const (
	// clientNew: Start was not called, or has failed. No loop runs.
	clientNew clientState = iota
	// clientRunning: Start has started the loops.
	clientRunning
	// clientStopped: Stop was called.
	clientStopped
)

// NewClient makes a client for a handler. The caller then calls Start and Stop. The
// errors are those of provider.Open and reactor.New.
func NewClient(h gnet.EventHandler, opts ...gnet.Option) (*Client, error) {
	return new(Config).NewClient(h, opts...)
}

// NewClient is the function NewClient with the options in c.
func (c *Config) NewClient(h gnet.EventHandler, opts ...gnet.Option) (*Client, error) {
	e, err := newEngine(c, h, opts, netip.Addr{})
	if err != nil {
		return nil, err
	}
	client := &Client{engine: e, done: make(chan struct{})}
	client.stop = sync.OnceValue(client.end)
	e.stop = func() { e.stopping.Store(true) }
	return client, nil
}

// Start calls OnBoot and starts the event loops. The gnet.Engine of OnBoot is empty, and
// the result of OnBoot is ignored, as in gnet. After Stop, and at a second call, the
// error is errors.ErrEngineInShutdown of gnet or that of reactor.Engine.Start.
func (c *Client) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == clientStopped {
		return gneterrors.ErrEngineInShutdown
	}
	c.engine.handler.OnBoot(gnet.Engine{})
	if err := c.engine.start(); err != nil {
		return err
	}
	c.state = clientRunning
	if c.engine.options.Ticker {
		c.ticker.Go(c.tick)
	}
	return nil
}

// tick calls OnTick until Stop, or until OnTick returns gnet.Shutdown.
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
// the result of the first. If the loops do not run, Stop calls no callback. Callbacks
// must not call Stop.
func (c *Client) Stop() error { return c.stop() }

// end is Stop.
func (c *Client) end() error {
	c.mu.Lock()
	before := c.state
	c.state = clientStopped
	c.mu.Unlock()
	if before == clientNew {
		return c.engine.discard()
	}
	close(c.done)
	c.ticker.Wait()
	c.engine.handler.OnShutdown(gnet.Engine{})
	c.engine.closeConns()
	return c.engine.end()
}

// Dial opens a connection to an address such as "192.0.2.1:7471", and waits for OnOpen.
// The network is "rdma", "rdma4", "rdma6", or a network of TCP, which means the same. The
// errors are those of stream.Dial and OnDialError of stream.Handler. Before Start the
// error is errors.ErrEmptyEngine of gnet.
func (c *Client) Dial(network, address string) (gnet.Conn, error) {
	return c.DialContext(network, address, nil)
}

// DialContext is Dial with a value that Conn.Context returns.
func (c *Client) DialContext(network, address string, ctx any) (gnet.Conn, error) {
	if err := c.checkRunning(); err != nil {
		return nil, err
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

// checkRunning returns an error of gnet if no connections can be opened.
func (c *Client) checkRunning() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == clientNew:
		return gneterrors.ErrEmptyEngine
	case c.state == clientStopped, c.engine.stopping.Load():
		return gneterrors.ErrEngineInShutdown
	}
	return nil
}

// Enroll is not supported, because a connection of package net has no RDMA connection.
func (c *Client) Enroll(conn net.Conn) (gnet.Conn, error) { return c.EnrollContext(conn, nil) }

// EnrollContext is not supported, as Enroll.
func (c *Client) EnrollContext(net.Conn, any) (gnet.Conn, error) {
	return nil, gneterrors.ErrUnsupportedOp
}
