package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// ucmatose, of librdmacm's examples. Once all connections are open the server
// sends count messages on each; the client, when it has them, sends as many
// back; then the server disconnects. What is in them does not matter. See
// ucmatose(1).

// A cmatose is either side.
type cmatose struct {
	*side
	let     int // server: requests let in
	open    []*reactor.Conn
	closed  int
	refused int
}

// A talk is what happens on one connection.
type talk struct{ sent, got int }

// opened reports whether all connections are there.
func (m *cmatose) opened(c *reactor.Conn) bool {
	c.SetContext(&talk{sent: m.opts.count}) // nothing to send yet
	m.open = append(m.open, c)
	return len(m.open) >= m.opts.conns
}

// speak begins to send.
func (m *cmatose) speak(c *reactor.Conn) {
	c.Context().(*talk).sent = 0
	m.OnWritable(c)
}

// OnWritable sends as much as there is room for.
func (m *cmatose) OnWritable(c *reactor.Conn) {
	for t := c.Context().(*talk); t.sent < m.opts.count; t.sent++ {
		err := c.Send(make([]byte, m.opts.size))
		if err != nil {
			if !errors.Is(err, reactor.ErrWouldBlock) {
				m.end(err)
			}
			return
		}
	}
}

// count counts a message, and reports whether it was the last.
func (m *cmatose) count(c *reactor.Conn, msg reactor.Message) bool {
	if len(msg.Data()) != m.opts.size {
		c.Abort(fmt.Errorf("a message of %d bytes, not %d", len(msg.Data()), m.opts.size))
		return false
	}
	t := c.Context().(*talk)
	t.got++
	return t.got == m.opts.count
}

// left counts a connection that is closed, and ends the side with the last.
func (m *cmatose) left(c *reactor.Conn, err error) {
	m.must(err)
	if t := c.Context().(*talk); t.got != m.opts.count {
		m.must(fmt.Errorf("a connection closed after %d of %d messages", t.got, m.opts.count))
	}
	m.closed++
	m.finish()
}

func (m *cmatose) finish() {
	if m.closed == m.opts.conns && m.refused == m.opts.refused {
		fmt.Fprintf(m.out, "%d connections, %d messages each way, %d refused\n", m.closed, m.opts.count, m.refused)
		m.end(nil)
	}
}

type cmatoseServer struct{ *cmatose }

func newCmatoseServer(s *side) reactor.Handler { return cmatoseServer{&cmatose{side: s}} }

// OnConnectRequest lets in as many as were asked for.
func (m cmatoseServer) OnConnectRequest(req *reactor.ConnRequest) {
	if m.let == m.opts.conns {
		m.must(req.Reject(nil))
		m.refused++
		m.finish()
		return
	}
	m.let++
	m.must(req.Accept(nil))
}

// OnOpen begins when all are there.
func (m cmatoseServer) OnOpen(c *reactor.Conn) {
	if !m.opened(c) {
		return
	}
	for _, c := range m.open {
		m.speak(c)
	}
}

// OnMessage closes the connection after the last.
func (m cmatoseServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if m.count(c, msg) {
		c.Close()
	}
}

// OnClose follows our own Close.
func (m cmatoseServer) OnClose(c *reactor.Conn, err error) { m.left(c, err) }

type cmatoseClient struct{ *cmatose }

func newCmatoseClient(s *side) reactor.Handler { return cmatoseClient{&cmatose{side: s}} }

// OnOpen asks for those that are to be refused, once the others are there.
func (m cmatoseClient) OnOpen(c *reactor.Conn) {
	if !m.opened(c) {
		return
	}
	if len(m.open) > m.opts.conns {
		m.end(errors.New("a connection was let in that was to be refused"))
		return
	}
	for range m.opts.refused {
		m.must(m.engine.Dial(m.opts.addr, nil))
	}
}

// OnDialError is as it should be when the server refuses what it was expected to.
func (m cmatoseClient) OnDialError(_ *reactor.Dial, err error) {
	var rejected *cm.RejectError
	if len(m.open) < m.opts.conns || !errors.As(err, &rejected) || rejected.Reason != cm.RejectConsumer {
		m.end(err)
		return
	}
	fmt.Fprintln(m.out, "refused:", err)
	m.refused++
	m.finish()
}

// headStart is for the requests that are to be refused. A ucmatose server looks at
// them when it has our messages, and then soon ends.
const headStart = 500 * time.Millisecond

// OnMessage answers after the last.
func (m cmatoseClient) OnMessage(c *reactor.Conn, msg reactor.Message) {
	switch {
	case !m.count(c, msg):
	case m.opts.refused > 0:
		c.Loop().After(headStart, func() { m.speak(c) })
	default:
		m.speak(c)
	}
}

// OnClose is the server's doing.
func (m cmatoseClient) OnClose(c *reactor.Conn, err error) {
	if errors.Is(err, reactor.ErrPeerClosed) {
		err = nil
	}
	m.left(c, err)
}
