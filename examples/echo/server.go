package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// shutdownTime is how long a side may take to shut down. It is more than twice the
// default of reactor.Config.DrainTimeout, because a connection may need that time once
// to deliver its messages and once to disconnect.
const shutdownTime = 12 * time.Second

// A server sends back every message. Its methods run on the loop of the connection.
type server struct {
	reactor.BaseHandler
	reject []byte     // Private data of the rejects. If set, every client is rejected.
	stderr io.Writer  // Output for errors that are returned to no caller.
	lost   chan error // Receives the error of the listener.
}

// OnConnectRequest accepts the client and returns its private data, or rejects it.
func (s *server) OnConnectRequest(req *reactor.ConnRequest) {
	var err error
	if len(s.reject) > 0 {
		err = req.Reject(s.reject)
	} else {
		err = req.Accept(&reactor.AcceptParams{PrivateData: req.PrivateData(), Context: &backlog{}})
	}
	if err != nil { // The client may have gone. The server continues.
		fmt.Fprintln(s.stderr, "echo:", err)
	}
}

// OnListenError stops the server, which has only this listener.
func (s *server) OnListenError(_ *reactor.Listener, err error) { s.lost <- err }

// A backlog is the messages that did not fit into the send queue, in order.
type backlog struct{ held []*reactor.Buffer }

// OnMessage sends the message back, or adds it to the backlog.
func (s *server) OnMessage(c *reactor.Conn, msg reactor.Message) {
	b := c.Context().(*backlog)
	if len(b.held) == 0 && !errors.Is(c.Send(msg.Data()), reactor.ErrWouldBlock) {
		return // The echo is sent, or the connection is failing and OnClose follows.
	}
	b.held = append(b.held, msg.Keep())
}

// OnWritable sends the backlog without copying it.
func (s *server) OnWritable(c *reactor.Conn) {
	b := c.Context().(*backlog)
	for len(b.held) > 0 && c.SendBuffer(b.held[0]) == nil {
		b.held = b.held[1:]
	}
}

// OnClose releases the backlog.
func (s *server) OnClose(c *reactor.Conn, _ error) {
	for _, buf := range c.Context().(*backlog).held {
		buf.Release()
	}
}

// serve runs a server until ctx ends.
func serve(ctx context.Context, opts *options, stdout, stderr io.Writer) error {
	addr, err := resolve("listen", opts.listen, netip.IPv4Unspecified())
	if err != nil {
		return err
	}
	p, err := provider.Open(opts.provider, opts.providerConfig(addr))
	if err != nil {
		return err
	}
	defer p.Close()

	_, cpus := opts.placement()
	handler := &server{reject: []byte(opts.reject), stderr: stderr, lost: make(chan error, 1)}
	engine, err := reactor.New(p, handler, opts.engineConfig(cpus))
	if err != nil {
		return err
	}
	if err := start(engine, cpus); err != nil {
		return err
	}
	listener, err := engine.Listen(addr)
	if err == nil {
		fmt.Fprintf(stdout, "listening on %v\n", listener.Addr())
		printServed(listener.Serves(), stdout, stderr)
		select {
		case <-ctx.Done():
		case err = <-handler.lost:
		}
	}
	return errors.Join(err, shutdown(engine))
}

// printServed prints the addresses at which clients can reach the server, and the
// reason for each address at which they cannot.
func printServed(served []cm.ServedAddr, stdout, stderr io.Writer) {
	for _, s := range served {
		path := "device"
		if s.Path != "" {
			path = s.Path + " path"
		}
		if s.Err != nil {
			fmt.Fprintf(stderr, "echo: not reached by the %s at %v: %v\n", path, s.Addr, s.Err)
		} else {
			fmt.Fprintf(stdout, "reached by the %s at %v\n", path, s.Addr)
		}
	}
}

// closeTime is how much each connection adds to the limit of shutdown. In an emulator
// on a busy machine, a connection took 6 ms.
const closeTime = 30 * time.Millisecond

// shutdown closes the connections and stops the engine, within a bounded time.
func shutdown(engine *reactor.Engine) error {
	limit := shutdownTime + time.Duration(engine.Stats().Conns)*closeTime
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return engine.Shutdown(ctx)
}
