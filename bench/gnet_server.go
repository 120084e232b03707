package main

import (
	"errors"
	"net"
	"os"

	"github.com/panjf2000/gnet/v2"
)

// A gnetServer does over TCP what echoServer does. Messages have a known size.
type gnetServer struct {
	gnet.BuiltinEventEngine
	spec  *spec
	ready chan error // nil, or why it can not run; the end of Run is one more
	addr  string
}

func serveGnet(s *spec) (server, error) {
	g := &gnetServer{spec: s, ready: make(chan error, 2)}
	go func() {
		err := gnet.Run(g, "tcp://127.0.0.1:0", gnetOptions())
		g.ready <- errors.Join(errors.New("gnet ended"), err)
	}()
	return g, <-g.ready
}

// OnBoot finds out which port gnet got.
func (g *gnetServer) OnBoot(engine gnet.Engine) gnet.Action {
	var err error
	if g.addr, err = listenerAddress(engine); err != nil {
		g.ready <- err
		return gnet.Shutdown
	}
	g.ready <- nil
	return gnet.None
}

func listenerAddress(engine gnet.Engine) (string, error) {
	fd, err := engine.Dup()
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
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

// OnTraffic answers the last of each group of messages. Peek and Discard make no
// garbage, as Next does with messages that came in pieces.
func (g *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	who := c.Context().(*customer)
	for c.InboundBuffered() >= g.spec.Size {
		message, err := c.Peek(g.spec.Size)
		if err != nil {
			return gnet.Close
		}
		if who.seen++; who.seen == g.spec.group() {
			who.seen = 0
			_, err = c.Write(message[:g.spec.answer()])
		}
		if _, failed := c.Discard(g.spec.Size); err != nil || failed != nil {
			return gnet.Close
		}
	}
	return gnet.None
}
