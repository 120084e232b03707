package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// ucmatose is a program of librdmacm. On each connection, the server sends -count
// messages, and the client sends as many messages back. Then the server disconnects.
// Source: ucmatose(1).

// A cmatose is what the ucmatose server and client have in common.
type cmatose struct {
	*endpoint
	accepted int // number of accepted requests
	open     []*reactor.Conn
	closed   int
	refused  int
}

// A connState counts the messages of one connection, in each direction.
type connState struct{ sent, got int }

// opened counts an opened connection. It returns true when all connections are open.
func (m *cmatose) opened(c *reactor.Conn) bool {
	// Until startSending is called, all messages count as sent. So OnWritable sends
	// nothing.
	c.UserData = &connState{sent: m.opts.count}
	m.open = append(m.open, c)
	return len(m.open) >= m.opts.conns
}

// startSending starts to send the messages of a connection.
func (m *cmatose) startSending(c *reactor.Conn) {
	c.UserData.(*connState).sent = 0
	m.OnWritable(c)
}

// OnWritable sends messages until the send queue is full.
func (m *cmatose) OnWritable(c *reactor.Conn) {
	for t := c.UserData.(*connState); t.sent < m.opts.count; t.sent++ {
		err := c.Send(make([]byte, m.opts.size), nil)
		if err != nil {
			if !errors.Is(err, reactor.ErrWouldBlock) {
				m.stop(err)
			}
			return
		}
	}
}

// count counts a received message. It returns true for the last message of the
// connection.
func (m *cmatose) count(c *reactor.Conn, msg reactor.Message) bool {
	if len(msg.Data()) != m.opts.size {
		c.Abort(fmt.Errorf("a message of %d bytes, not %d", len(msg.Data()), m.opts.size))
		return false
	}
	t := c.UserData.(*connState)
	t.got++
	return t.got == m.opts.count
}

// onClosed counts a closed connection. After the last one, it stops the endpoint.
func (m *cmatose) onClosed(c *reactor.Conn, err error) {
	m.check(err)
	if t := c.UserData.(*connState); t.got != m.opts.count {
		m.check(fmt.Errorf("a connection closed after %d of %d messages", t.got, m.opts.count))
	}
	m.closed++
	m.finish()
}

func (m *cmatose) finish() {
	if m.closed == m.opts.conns && m.refused == m.opts.refused {
		fmt.Fprintf(m.out, "%d connections, %d messages each way, %d refused\n", m.closed, m.opts.count, m.refused)
		m.stop(nil)
	}
}

type cmatoseServer struct{ *cmatose }

func newCmatoseServer(s *endpoint) reactor.Handler { return cmatoseServer{&cmatose{endpoint: s}} }

// OnConnectRequest accepts as many requests as the flag -conns says. It rejects all
// others.
func (m cmatoseServer) OnConnectRequest(req *reactor.ConnRequest) {
	if m.accepted == m.opts.conns {
		m.check(req.Reject(nil))
		m.refused++
		m.finish()
		return
	}
	m.accepted++
	m.check(req.Accept(nil))
}

// OnOpen starts sending on all connections when the last one has opened.
func (m cmatoseServer) OnOpen(c *reactor.Conn) {
	if !m.opened(c) {
		return
	}
	for _, c := range m.open {
		m.startSending(c)
	}
}

// OnMessage closes the connection after the client's last message.
func (m cmatoseServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if m.count(c, msg) {
		c.Close()
	}
}

// OnClose counts a connection that this server has closed.
func (m cmatoseServer) OnClose(c *reactor.Conn, err error) { m.onClosed(c, err) }

type cmatoseClient struct{ *cmatose }

func newCmatoseClient(s *endpoint) reactor.Handler { return cmatoseClient{&cmatose{endpoint: s}} }

// OnOpen waits until all connections are open. Then it dials the additional connections
// of the flag -refused.
func (m cmatoseClient) OnOpen(c *reactor.Conn) {
	if !m.opened(c) {
		return
	}
	if len(m.open) > m.opts.conns {
		m.stop(errors.New("the server accepted a connection that was to be refused"))
		return
	}
	for range m.opts.refused {
		m.check(m.engine.Dial(m.opts.addr, nil))
	}
}

// OnDialError counts the additional connections that the server has rejected. Any other
// error ends the client.
func (m cmatoseClient) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	var rejected *cm.RejectError
	if len(m.open) < m.opts.conns || !errors.As(err, &rejected) || rejected.Reason != cm.RejectConsumer {
		m.stop(err)
		return
	}
	fmt.Fprintln(m.out, "refused:", err)
	m.refused++
	m.finish()
}

// The client's messages wait this long, so that the server can reject additional
// connections first. A ucmatose server exits soon after the messages.
const rejectTime = 500 * time.Millisecond

// OnMessage sends the client's messages after the last message of the server.
func (m cmatoseClient) OnMessage(c *reactor.Conn, msg reactor.Message) {
	switch {
	case !m.count(c, msg):
	case m.opts.refused > 0:
		c.Loop().After(rejectTime, func() { m.startSending(c) })
	default:
		m.startSending(c)
	}
}

// OnClose counts a connection that the server has disconnected.
func (m cmatoseClient) OnClose(c *reactor.Conn, err error) {
	if errors.Is(err, reactor.ErrPeerClosed) {
		err = nil
	}
	m.onClosed(c, err)
}
