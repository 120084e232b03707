package main

import (
	"context"
	"errors"
	"time"

	"github.com/panjf2000/gnet/v2"
)

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
		answer, err := c.Peek(size)
		if err != nil {
			return gnet.Close
		}
		c.Context().(*session).answered(answer)
		if _, err := c.Discard(size); err != nil {
			return gnet.Close
		}
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
