package main

import (
	"context"
	"errors"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// A gnetClient is a transport over gnet.
type gnetClient struct {
	gnet.BuiltinEventEngine
	driver *driver
	client *gnet.Client
	loop   gnet.EventLoop
}

func connectGnet(s *spec) (client, error) {
	g := &gnetClient{driver: newDriver(s)}
	g.driver.transport = g
	var err error
	if g.client, err = gnet.NewClient(g, gnetOptions()); err != nil {
		return nil, err
	}
	return g.driver, g.client.Start()
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

// closeConn resets the connection. Then the local port is free at once.
func (g *gnetClient) closeConn(s *session) {
	c := s.sender.(*gnetSender).conn
	if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
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

func (l *gnetSender) send(n uint64) error {
	putNumber(l.message, n)
	_, err := l.conn.Write(l.message)
	return err
}
