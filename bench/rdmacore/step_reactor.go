//go:build cgo && linux

package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// address is the address of the device. The port is arbitrary.
var address = netip.MustParseAddrPort("192.0.2.1:7471")

// closeTimeout is how long closing the connection may take. Arbitrary.
const closeTimeout = 5 * time.Second

// runReactor runs one side of the steps reactor and echo.
func runReactor(p cm.Provider, s *spec, side int) (times []uint64, err error) {
	done := make(chan error, 4)
	var h reactor.Handler = &echoServer{done: done}
	c := &echoClient{spec: s, done: done, payload: make([]byte, s.Size), times: make([]uint64, 0, s.Chunks)}
	if side == client {
		h = c
	}
	if s.Step == "echo" {
		c.histogram = hdrhistogram.New(1, int64(time.Minute), 3)
	}
	engine, err := reactor.New(p, h, &reactor.Config{Idle: reactor.IdleBusy})
	if err != nil {
		return nil, err
	}
	if err := engine.Start(); err != nil {
		return nil, err
	}
	if side == server {
		if _, err := engine.Listen(address, nil); err != nil {
			return nil, err
		}
	}
	meet()
	if side == client {
		if err := engine.Dial(address, nil); err != nil {
			return nil, err
		}
	}
	err = <-done
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return c.times, errors.Join(err, engine.Shutdown(ctx))
}

// An echoServer sends every message back. It ends when the connection closes.
type echoServer struct {
	reactor.BaseHandler
	done chan error
}

// OnMessage sends the message back. If that fails, OnClose follows.
func (e *echoServer) OnMessage(c *reactor.Conn, msg reactor.Message) { _ = c.Send(msg.Data(), nil) }

// OnClose ends the server. The client reports errors.
func (e *echoServer) OnClose(*reactor.Conn, error) { e.done <- nil }

// An echoClient sends one message after another and times the chunks.
type echoClient struct {
	reactor.BaseHandler
	spec    *spec
	done    chan error
	payload []byte
	times   []uint64
	begin   time.Time
	rounds  int // number of finished round trips in this chunk

	histogram *hdrhistogram.Histogram // times of round trips; nil in the step reactor
	sentAt    time.Time               // time of the last Send, in the step echo
}

// OnOpen sends the first message.
func (e *echoClient) OnOpen(c *reactor.Conn) {
	e.begin = time.Now()
	e.send(c)
}

// OnMessage sends the next message.
func (e *echoClient) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if e.histogram != nil && !e.check(c, msg.Data()) {
		return
	}
	if e.rounds++; e.rounds == e.spec.Rounds {
		now := time.Now()
		e.times = append(e.times, uint64(now.Sub(e.begin)))
		e.rounds, e.begin = 0, now
	}
	if len(e.times) == e.spec.Chunks {
		c.Close()
		return
	}
	e.send(c)
}

// check records the time of the round trip, and compares the echo with the message. If
// they differ, check aborts the connection.
func (e *echoClient) check(c *reactor.Conn, echo []byte) bool {
	err := e.histogram.RecordValue(int64(time.Since(e.sentAt)))
	if !bytes.Equal(echo, e.payload) {
		err = errors.Join(err, errors.New("the echo differs from the message"))
	}
	if err != nil {
		c.Abort(err)
	}
	return err == nil
}

func (e *echoClient) send(c *reactor.Conn) {
	if e.histogram != nil {
		e.sentAt = time.Now()
	}
	if err := c.Send(e.payload, nil); err != nil {
		c.Abort(err)
	}
}

// OnClose ends the client.
func (e *echoClient) OnClose(_ *reactor.Conn, err error) { e.done <- err }

// OnDialError ends the client.
func (e *echoClient) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	e.done <- err
}
