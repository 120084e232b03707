package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/latency"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// serve runs a server until ctx ends.
func serve(ctx context.Context, opts *options, stdout, stderr io.Writer) error {
	handler := &server{reject: []byte(opts.reject), stderr: stderr, lost: make(chan error, 1)}
	n, err := start(ctx, opts, handler)
	if err != nil {
		return err
	}
	listener, err := n.engine.Listen(n.addr, nil)
	if err == nil {
		fmt.Fprintf(stdout, "listening on %v\n", listener.Addr())
		latency.PrintServed("echo", n.device, listener.Serves(), stdout, stderr)
		select {
		case <-ctx.Done():
		case err = <-handler.lost:
		}
	}
	return errors.Join(err, n.shutdown())
}

// A server sends back every message. The methods run on the loop of their connection.
type server struct {
	reactor.BaseHandler
	reject []byte     // private data with which every client is rejected; empty: none is
	stderr io.Writer  // for the errors of callbacks
	lost   chan error // receives the error if the listener fails
}

// A backlog has the echoes that wait for the send queue, oldest first.
type backlog struct{ held []*reactor.Buffer }

// OnConnectRequest accepts the client and returns its private data, or rejects it.
func (s *server) OnConnectRequest(req *reactor.ConnRequest) {
	var err error
	if len(s.reject) > 0 {
		err = req.Reject(s.reject)
	} else {
		err = req.Accept(&reactor.AcceptOptions{PrivateData: req.PrivateData(), UserData: &backlog{}})
	}
	if err != nil { // for example, the client has already disconnected
		fmt.Fprintln(s.stderr, "echo:", err)
	}
}

// OnMessage sends the message back, or keeps it if the send queue is full.
func (s *server) OnMessage(c *reactor.Conn, msg reactor.Message) {
	b := c.UserData.(*backlog)
	if len(b.held) == 0 && !errors.Is(c.Send(msg.Data(), nil), reactor.ErrWouldBlock) {
		return // If Send has failed, OnClose follows.
	}
	if buf := msg.Keep(); buf != nil {
		b.held = append(b.held, buf)
	} else {
		c.Abort(errors.New("no memory to keep the message"))
	}
}

// OnWritable sends the backlog without copying.
func (s *server) OnWritable(c *reactor.Conn) {
	b := c.UserData.(*backlog)
	for len(b.held) > 0 && c.SendBuffer(b.held[0], nil) == nil {
		b.held = b.held[1:]
	}
}

// OnClose releases the messages in the backlog.
func (s *server) OnClose(c *reactor.Conn, _ error) {
	for _, buf := range c.UserData.(*backlog).held {
		buf.Release()
	}
}

// OnListenError stops the server, because it has no other listener.
func (s *server) OnListenError(_ *reactor.Listener, err error) { s.lost <- err }

// A node is a server or a client with its device and its loops.
type node struct {
	addr   netip.AddrPort // of the server
	device cm.Provider
	engine *reactor.Engine
}

// start opens the device that has the server's address or a route to it, and runs loops.
func start(ctx context.Context, opts *options, h reactor.Handler) (n *node, err error) {
	n = &node{}
	resolve, hostPort := cm.DialAddr, opts.connect
	if opts.listen != "" {
		resolve, hostPort = cm.ListenAddr, opts.listen
	}
	if n.addr, err = resolve(ctx, hostPort); err != nil {
		return nil, err
	}
	cfg := &provider.Config{Soft: &soft.Config{Path: opts.path}, Addr: n.addr.Addr()}
	if opts.capture != "" {
		cfg.Soft.Capture = &soft.Capture{File: opts.capture}
	}
	if n.device, err = provider.Open(opts.Provider, cfg); err != nil {
		return nil, err
	}
	n.engine, err = reactor.New(n.device, h, &reactor.Config{
		NumLoops: opts.Loops, CPUs: opts.cpus, Idle: opts.Mode,
		// An echo may arrive before the completion of its send: see reactor.Config.
		MaxInFlight: 2 * opts.InFlight,
		MaxMessage:  max(opts.Size, 1),
	})
	if err == nil {
		if err = n.engine.Start(); err != nil && opts.cpus != nil {
			err = fmt.Errorf("loops on processors %v: %w", opts.cpus, err)
		}
	}
	if err != nil {
		n.device.Close()
	}
	return n, err
}

// shutdownTime is how long a shutdown may take without open connections. A connection may
// need reactor.Config.Limits.DrainTimeout twice: to deliver messages, and to disconnect.
const shutdownTime = 12 * time.Second

// shutdown closes the connections, the loops and the device. In an emulator on a busy
// machine, each connection took 6 ms.
func (n *node) shutdown() error {
	limit := shutdownTime + time.Duration(n.engine.Stats().Conns)*30*time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	defer n.device.Close()
	return n.engine.Shutdown(ctx)
}
