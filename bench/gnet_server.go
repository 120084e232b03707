package main

import (
	"bytes"
	"errors"
	"net"
	"os"

	"github.com/panjf2000/gnet/v2"
)

// A gnetServer answers messages in the same way as an echoServer, over TCP or with
// package gnetrdma.
type gnetServer struct {
	gnet.BuiltinEventEngine
	spec *spec
	// The server sends two values on this channel: nil or an error after the start, and
	// later the result of gnet.Run.
	ready   chan error
	addr    string  // empty until it is known
	workers workers // for workWorkers
}

func serveGnet(s *spec) (server, error) {
	g := &gnetServer{spec: s, ready: make(chan error, 2), workers: startWorkers(s)}
	go func() {
		err := gnet.Run(g, "tcp://127.0.0.1:0", gnetOptions())
		g.ready <- errors.Join(errors.New("gnet ended"), err)
	}()
	return g, <-g.ready
}

// OnBoot stores the address of the listener if it is not known.
func (g *gnetServer) OnBoot(engine gnet.Engine) gnet.Action {
	if g.addr == "" {
		var err error
		if g.addr, err = listenerAddress(engine); err != nil {
			g.ready <- err
			return gnet.Shutdown
		}
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

// Addr returns the address of the listener.
func (g *gnetServer) Addr() string { return g.addr }

// Close does nothing, because the process exits afterwards.
func (g *gnetServer) Close() error { return nil }

// OnOpen gives the connection a counter of messages.
func (g *gnetServer) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(&serverConn{})
	return nil, gnet.None
}

// OnTraffic answers the last message of each group. It does not use Next, which may
// allocate.
func (g *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	state := c.Context().(*serverConn)
	for c.InboundBuffered() >= g.spec.Size {
		message, err := c.Peek(g.spec.Size)
		if err != nil {
			return gnet.Close
		}
		if state.unanswered++; state.unanswered == g.spec.group() {
			state.unanswered = 0
			err = g.answer(c, message[:g.spec.answer()])
		}
		if _, failed := c.Discard(g.spec.Size); err != nil || failed != nil {
			return gnet.Close
		}
	}
	return gnet.None
}

// answer sends data, which stays that of the connection.
func (g *gnetServer) answer(c gnet.Conn, data []byte) error {
	if g.workers == nil {
		_, err := c.Write(data)
		return err
	}
	data = bytes.Clone(data)
	g.workers <- func() { _ = c.AsyncWrite(data, nil) } // If it fails, the client gets no answer.
	return nil
}
