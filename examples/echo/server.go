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

// drainTime is how long either side may take to end in order: more than twice
// what reactor.Config.DrainTimeout is by default, as a connection may need that to
// deliver what it has, and once more to part.
const drainTime = 12 * time.Second

// A server sends back what it receives. All its methods run on the loop of the
// connection they are about.
type server struct {
	reactor.BaseHandler
	reject []byte     // when set, why nobody is let in
	stderr io.Writer  // for what nobody else is told
	lost   chan error // gets why nobody can connect any more
}

// OnConnectRequest lets the client in and returns its private data, or refuses.
func (s *server) OnConnectRequest(req *reactor.ConnRequest) {
	var err error
	if len(s.reject) > 0 {
		err = req.Reject(s.reject)
	} else {
		err = req.Accept(&reactor.AcceptParams{PrivateData: req.PrivateData(), Context: &backlog{}})
	}
	if err != nil { // the client may have left; the server goes on
		fmt.Fprintln(s.stderr, "echo:", err)
	}
}

// OnListenError ends the server: it has one listener.
func (s *server) OnListenError(_ *reactor.Listener, err error) { s.lost <- err }

// A backlog holds, in order, messages that found the send queue full.
type backlog struct{ held []*reactor.Buffer }

// OnMessage is the whole service.
func (s *server) OnMessage(c *reactor.Conn, msg reactor.Message) {
	late := c.Context().(*backlog)
	if len(late.held) == 0 && !errors.Is(c.Send(msg.Data()), reactor.ErrWouldBlock) {
		return // sent; or the connection is failing, and OnClose will say why
	}
	late.held = append(late.held, msg.Keep())
}

// OnWritable sends what is held, without copying it.
func (s *server) OnWritable(c *reactor.Conn) {
	late := c.Context().(*backlog)
	for len(late.held) > 0 && c.SendBuffer(late.held[0]) == nil {
		late.held = late.held[1:]
	}
}

// OnClose gives back what could not be sent any more.
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
		tellServed(listener.Serves(), stdout, stderr)
		select {
		case <-ctx.Done():
		case err = <-handler.lost:
		}
	}
	return errors.Join(err, shutdown(engine))
}

// tellServed prints the addresses at which clients can reach the server, and the
// reason for each address at which they can not.
func tellServed(served []cm.ServedAddr, stdout, stderr io.Writer) {
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

// partTime is what each connection adds to the limit. Under an emulator, with other
// work on the machine, a connection took 6 ms.
const partTime = 30 * time.Millisecond

// shutdown ends an engine in order, within a bounded time.
func shutdown(engine *reactor.Engine) error {
	limit := drainTime + time.Duration(engine.Stats().Conns)*partTime
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return engine.Shutdown(ctx)
}
