package main

import (
	"context"
	"errors"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// A gnetClient is a transport over gnet, or over package gnetrdma.
type gnetClient struct {
	gnet.BuiltinEventEngine
	driver *driver
	client gnetDialer
	loop   gnet.EventLoop
}

// A gnetDialer is a *gnet.Client or a *gnetrdma.Client.
type gnetDialer interface {
	DialContext(network, address string, ctx any) (gnet.Conn, error)
}

func connectGnet(s *spec) (client, error) {
	g := newGnetClient(s)
	c, err := gnet.NewClient(g, gnetOptions())
	if err != nil {
		return nil, err
	}
	g.client = c
	return g.driver, c.Start()
}

func newGnetClient(s *spec) *gnetClient {
	g := &gnetClient{driver: newDriver(s)}
	g.driver.transport = g
	return g
}

// post calls f in the event loop. Before the first connection there is no loop, and
// post() calls f directly.
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

// dial connects in a goroutine of its own, because connecting would block the loop.
func (g *gnetClient) dial(s *session) error {
	go func() {
		if _, err := g.client.DialContext("tcp", g.driver.spec.Server, s); err != nil {
			_ = g.post(func() { g.driver.fail(err) })
		}
	}()
	return nil
}

// closeConn closes the connection. It resets a connection of TCP, whose local port is
// then free at once.
func (g *gnetClient) closeConn(s *session) {
	c := s.sender.(*gnetSender).conn
	var err error
	if c.LocalAddr().Network() == "tcp" {
		err = c.SetLinger(0)
	}
	if err := errors.Join(err, c.Close()); err != nil {
		g.driver.fail(err)
	}
}

// Close does nothing, because the process exits afterwards.
func (g *gnetClient) Close() error { return nil }

// OnOpen starts the session of the connection.
func (g *gnetClient) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	g.loop = c.EventLoop()
	c.Context().(*session).onOpen(&gnetSender{c, make([]byte, g.driver.spec.Size)})
	return nil, gnet.None
}

// OnTraffic passes answers to the session.
func (g *gnetClient) OnTraffic(c gnet.Conn) gnet.Action {
	size := g.driver.spec.answer()
	for c.InboundBuffered() >= size {
		answer, err := c.Peek(size)
		if err != nil {
			return gnet.Close
		}
		c.Context().(*session).onAnswer(answer)
		if _, err := c.Discard(size); err != nil {
			return gnet.Close
		}
	}
	return gnet.None
}

// OnClose passes the end of a connection to its session.
func (g *gnetClient) OnClose(c gnet.Conn, err error) gnet.Action {
	c.Context().(*session).onClose(err)
	return gnet.None
}

// A gnetSender sends on a gnet connection. It never returns errBlocked, because gnet's
// buffer has no limit.
type gnetSender struct {
	conn    gnet.Conn
	message []byte
}

func (g *gnetSender) send(n uint64) error {
	putNumber(g.message, n)
	_, err := g.conn.Write(g.message)
	return err
}
