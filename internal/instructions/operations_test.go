//go:build linux

package main

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

const (
	// messageSize is the size of every message in bytes.
	messageSize = 64
	// warmUp is the number of operations before those that are counted. Meanwhile the
	// devices open their sockets, and the congestion window grows.
	warmUp = 2048
	// inFlight is the number of messages that one side of a one-way case sends before the
	// loops run. Arbitrary.
	inFlight = 16
	// A turn of a loop takes turnTime of virtual time. It passes in steps of sleepTurns
	// turns, so that the scheduler's work is small.
	turnTime   = 250 * time.Nanosecond
	sleepTurns = 128
	// openTurns is the number of turns within which a connection must open.
	openTurns = 1_000_000
)

// TestOperations executes the operations of each case, and nothing else while they are
// counted. It does so in virtual time, because a part of a loop's work depends on time,
// and callgrind makes a program fifty times slower.
func TestOperations(t *testing.T) {
	open := map[string]func(*pair){
		"local-echo":    openConns(soft.PathLocal, true),
		"local-message": openConns(soft.PathLocal, false),
		"local-stream":  openStreams,
		"wire-message":  openConns(soft.PathWire, false),
		"wire-echo":     openConns(soft.PathWire, true),
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pair{t: t}
				open[c.name](p)
				for p.send == nil {
					p.turn()
					require.Less(t, p.turns, openTurns)
				}
				p.exchange(warmUp)
				mark()
				p.exchange(operations)
				mark()
			})
		})
	}
}

// mark is called before and after the operations that are counted. Callgrind writes its
// counts to a file, and sets them to zero, before each call.
//
//go:noinline
func mark() {}

// A pair has two loops with a device each. One goroutine runs them in turn, so that
// every process executes the same instructions.
type pair struct {
	t              *testing.T
	client, server *reactor.Loop
	send           func([]byte) error // nil until the connection is open
	group          int                // number of operations that begin before the loops run
	wanted         int                // bytes of the messages that were sent
	received       int                // bytes that the server has received, or the client if the server answers
	turns          int                // turns of both loops
	err            error              // why the connection has ended
}

// openLoops opens both devices and loops.
func (p *pair) openLoops(path soft.Path, client, server reactor.Handler) {
	port := freeport.UDP(p.t)
	open := func(h reactor.Handler) *reactor.Loop {
		dev, err := soft.Open(&soft.Config{Path: path, WirePort: port})
		require.NoError(p.t, err)
		p.t.Cleanup(func() { require.NoError(p.t, dev.Close()) })
		l, err := reactor.NewLoop(dev, h, nil)
		require.NoError(p.t, err)
		p.t.Cleanup(func() { require.NoError(p.t, l.Close()) })
		return l
	}
	p.client, p.server = open(client), open(server)
}

// exchange sends n messages, a group at a time, and runs the loops until each group has
// arrived.
func (p *pair) exchange(n int) {
	message := make([]byte, messageSize)
	for range n / p.group {
		for range p.group {
			p.wanted += messageSize
			for err := p.send(message); err != nil; err = p.send(message) {
				if !errors.Is(err, reactor.ErrWouldBlock) {
					p.t.Fatal(err)
				}
				p.turn()
			}
		}
		for p.received < p.wanted {
			p.turn()
		}
	}
}

// turn runs one turn of each loop.
func (p *pair) turn() {
	for _, l := range []*reactor.Loop{p.client, p.server} {
		if _, err := l.RunOnce(0); err != nil || p.err != nil {
			p.t.Fatal(err, p.err)
		}
		if p.turns++; p.turns%sleepTurns == 0 {
			time.Sleep(sleepTurns * turnTime)
		}
	}
}

// openConns returns a function that dials a connection of package reactor. If echo is
// true, the server answers.
func openConns(path soft.Path, echo bool) func(*pair) {
	return func(p *pair) {
		p.group = inFlight
		if echo {
			p.group = 1
		}
		p.openLoops(path, &connHandler{pair: p}, &connHandler{pair: p, server: true, echo: echo})
		at, from := netip.MustParseAddrPort("127.0.0.1:0"), netip.AddrPort{}
		if path == soft.PathWire {
			from = netip.MustParseAddrPort("127.0.0.2:0")
		}
		ln, err := p.server.Engine().Listen(at, nil)
		require.NoError(p.t, err)
		require.NoError(p.t, p.client.Engine().Dial(ln.Addr(), &reactor.DialOptions{LocalAddr: from}))
	}
}

// A connHandler is the handler of one side.
type connHandler struct {
	reactor.BaseHandler
	pair   *pair
	server bool
	echo   bool // true if this side sends the messages back
}

// OnOpen tells the pair of the client how to send.
func (h *connHandler) OnOpen(c *reactor.Conn) {
	if !h.server {
		h.pair.send = func(b []byte) error { return c.Send(b, nil) }
	}
}

// OnMessage counts the bytes of a message, or sends it back.
func (h *connHandler) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if !h.echo {
		h.pair.received += len(msg.Data())
	} else if err := c.Send(msg.Data(), nil); err != nil {
		h.pair.err = err
	}
}

// OnClose ends the run.
func (h *connHandler) OnClose(_ *reactor.Conn, err error) { h.pair.err = err }

// OnDialError ends the run.
func (h *connHandler) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	h.pair.err = err
}

// openStreams dials a stream on the local path.
func openStreams(p *pair) {
	p.group = inFlight
	p.openLoops(soft.PathLocal, reactor.BaseHandler{}, reactor.BaseHandler{})
	ln, err := stream.Listen(p.server.Engine(), netip.MustParseAddrPort("127.0.0.1:0"), &streamHandler{pair: p, server: true}, nil)
	require.NoError(p.t, err)
	require.NoError(p.t, stream.Dial(p.client.Engine(), ln.Addr(), &streamHandler{pair: p}, nil))
}

// A streamHandler is the handler of one side of a stream.
type streamHandler struct {
	stream.BaseHandler
	pair   *pair
	server bool
}

// OnOpen tells the pair of the client how to send. The buffers of a stream have room for
// whole messages, so Write writes all of a message or nothing.
func (h *streamHandler) OnOpen(s *stream.Stream) {
	if !h.server {
		h.pair.send = func(b []byte) error { _, err := s.Write(b); return err }
	}
}

// OnData discards the bytes and counts them.
func (h *streamHandler) OnData(s *stream.Stream) { h.pair.received += s.Discard(s.Len()) }

// OnClose ends the run.
func (h *streamHandler) OnClose(_ *stream.Stream, err error) { h.pair.err = err }

// OnDialError ends the run.
func (h *streamHandler) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *stream.DialOptions, err error) {
	h.pair.err = err
}
