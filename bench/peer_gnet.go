package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

func gnetPeer() *peer {
	return &peer{
		name:    "gnet",
		ways:    []way{{"tcp", "event"}},
		fits:    func(c Case) bool { return !c.oneSided() },
		serve:   serveGnet,
		connect: connectGnet,
	}
}

// gnetOptions are the defaults, with one loop: TCP_NODELAY is among them.
func gnetOptions() gnet.Option {
	return gnet.WithOptions(gnet.Options{NumEventLoop: 1, Logger: errorLog{}})
}

// An errorLog keeps what gnet says off the standard output, where the notes go.
type errorLog struct{}

var _ logging.Logger = errorLog{}

func (errorLog) Debugf(string, ...any) {}
func (errorLog) Infof(string, ...any)  {}
func (errorLog) Warnf(string, ...any)  {}

func (errorLog) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (errorLog) Fatalf(format string, args ...any) {
	errorLog{}.Errorf(format, args...)
	os.Exit(exitFailed)
}

// A gnetServer does over TCP what echoServer does. Messages have a known size.
type gnetServer struct {
	gnet.BuiltinEventEngine
	spec  *spec
	ready chan struct{}
	addr  string
}

func serveGnet(s *spec) (server, error) {
	// gnet does not tell which port it got, so it is told.
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gnetServer{spec: s, ready: make(chan struct{}, 1), addr: probe.Addr().String()}
	if err := probe.Close(); err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() { failed <- gnet.Run(g, "tcp://"+g.addr, gnetOptions()) }()
	select {
	case <-g.ready:
		return g, nil
	case err := <-failed:
		return nil, errors.Join(errors.New("gnet ended"), err)
	}
}

// OnBoot says that the server listens.
func (g *gnetServer) OnBoot(gnet.Engine) gnet.Action {
	g.ready <- struct{}{}
	return gnet.None
}

// Addr is where the server listens.
func (g *gnetServer) Addr() string { return g.addr }

// Close does nothing: the process ends.
func (g *gnetServer) Close() error { return nil }

// OnOpen makes the connection's counter.
func (g *gnetServer) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(&customer{})
	return nil, gnet.None
}

// OnTraffic answers the last of each group of messages.
func (g *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	who := c.Context().(*customer)
	for c.InboundBuffered() >= g.spec.Size {
		message, err := c.Next(g.spec.Size)
		if err != nil {
			return gnet.Close
		}
		if who.seen++; who.seen < g.spec.group() {
			continue
		}
		who.seen = 0
		if _, err := c.Write(message[:g.spec.answer()]); err != nil {
			return gnet.Close
		}
	}
	return gnet.None
}

// A gnetClient is the transport of a driver.
type gnetClient struct {
	gnet.BuiltinEventEngine
	driver *driver
	client *gnet.Client
	loop   gnet.EventLoop
}

func connectGnet(s *spec) (client, error) {
	g := &gnetClient{driver: newDriver(s)}
	g.driver.lib = g
	var err error
	if g.client, err = gnet.NewClient(g, gnetOptions()); err != nil {
		return nil, err
	}
	return g.driver, g.client.Start()
}

// post runs f on the loop, which is known from the first connection on; until
// then nothing runs that could be disturbed.
func (g *gnetClient) post(f func()) error {
	if g.loop == nil {
		f()
		return nil
	}
	return g.loop.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
		f()
		return nil
	}))
}

func (g *gnetClient) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		if err := g.post(f); err != nil {
			g.driver.fail(err)
		}
	})
}

// dial must not wait on the loop.
func (g *gnetClient) dial(s *session) error {
	go func() {
		if _, err := g.client.DialContext("tcp", g.driver.spec.Server, s); err != nil {
			_ = g.post(func() { g.driver.fail(err) })
		}
	}()
	return nil
}

// hangUp closes with a reset: the port is free at once.
func (g *gnetClient) hangUp(s *session) {
	c := s.out.(*gnetLane).conn
	if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
		g.driver.fail(err)
	}
}

// Close does nothing: the process ends.
func (g *gnetClient) Close() error { return nil }

// OnOpen tells the session.
func (g *gnetClient) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	g.loop = c.EventLoop()
	c.Context().(*session).opened(&gnetLane{c, make([]byte, g.driver.spec.Size)})
	return nil, gnet.None
}

// OnTraffic brings answers.
func (g *gnetClient) OnTraffic(c gnet.Conn) gnet.Action {
	size := g.driver.spec.answer()
	for c.InboundBuffered() >= size {
		answer, err := c.Next(size)
		if err != nil {
			return gnet.Close
		}
		c.Context().(*session).answered(answer)
	}
	return gnet.None
}

// OnClose ends a session.
func (g *gnetClient) OnClose(c gnet.Conn, err error) gnet.Action {
	c.Context().(*session).closed(err)
	return gnet.None
}

// A gnetLane is the courier of a connection. gnet buffers what the socket does not
// take, without limit, so there is always room.
type gnetLane struct {
	conn    gnet.Conn
	message []byte
}

func (l *gnetLane) carry(n uint64) error {
	putNumber(l.message, n)
	_, err := l.conn.Write(l.message)
	return err
}
