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

// Time for the shutdown of a client or server. A connection may need
// reactor.Config.DrainTimeout twice: to deliver messages, and to disconnect.
const shutdownTime = 12 * time.Second

// errNoMemory ends a connection whose message the server can not keep.
var errNoMemory = errors.New("no memory to keep the message")

// A server sends back every message. The methods run on the loop of their connection.
type server struct {
	reactor.BaseHandler
	// private data with which every client is rejected; empty if clients are accepted
	reject []byte
	// The callbacks print their errors here.
	stderr io.Writer
	lost   chan error // channel that receives the error if the listener fails
}

// OnConnectRequest accepts the client and returns its private data. With the flag
// -reject, it rejects the client.
func (s *server) OnConnectRequest(req *reactor.ConnRequest) {
	var err error
	if len(s.reject) > 0 {
		err = req.Reject(s.reject)
	} else {
		err = req.Accept(&reactor.AcceptParams{PrivateData: req.PrivateData(), Context: &backlog{}})
	}
	// Accept fails if the client has already disconnected.
	if err != nil {
		fmt.Fprintln(s.stderr, "echo:", err)
	}
}

// OnListenError stops the server, because it has no other listener.
func (s *server) OnListenError(_ *reactor.Listener, err error) { s.lost <- err }

// A backlog has the echoes that wait for the send queue, oldest first.
type backlog struct{ held []*reactor.Buffer }

// OnMessage sends the message back. If the send queue is full, the message waits in the
// backlog.
func (s *server) OnMessage(c *reactor.Conn, msg reactor.Message) {
	b := c.Context().(*backlog)
	if len(b.held) == 0 && !errors.Is(c.Send(msg.Data()), reactor.ErrWouldBlock) {
		// If Send has failed, OnClose follows.
		return
	}
	buf := msg.Keep()
	if buf == nil {
		c.Abort(errNoMemory)
		return
	}
	b.held = append(b.held, buf)
}

// OnWritable sends the backlog without copying.
func (s *server) OnWritable(c *reactor.Conn) {
	b := c.Context().(*backlog)
	for len(b.held) > 0 && c.SendBuffer(b.held[0]) == nil {
		b.held = b.held[1:]
	}
}

// OnClose releases the messages in the backlog.
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
	listener, err := engine.Listen(addr, nil)
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

// printServed prints the addresses at which clients can reach the server. Addresses that
// clients can not reach go to stderr, with their errors.
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

// closeTime is how much longer a shutdown may take for each open connection. In an
// emulator on a busy machine, each connection took 6 ms.
const closeTime = 30 * time.Millisecond

// shutdown closes the connections and stops the engine. It takes at most shutdownTime,
// plus closeTime for each connection.
func shutdown(engine *reactor.Engine) error {
	limit := shutdownTime + time.Duration(engine.Stats().Conns)*closeTime
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return engine.Shutdown(ctx)
}
