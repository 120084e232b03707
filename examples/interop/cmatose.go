package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// ucmatose is a program of librdmacm. It opens several connections. When all of them are
// open, the server sends messages on each of them. The flag -count is the number of
// messages on one connection. When the client has received all messages of a connection,
// it sends the same number of messages back. When the server has received these
// messages, it disconnects. The contents of the messages do not matter. See ucmatose(1).

// A cmatose has the code that the server and the client of the protocol of ucmatose have
// in common.
type cmatose struct {
	*endpoint
	accepted int // Number of requests that the server has accepted.
	open     []*reactor.Conn
	closed   int
	refused  int
}

// A connState counts the messages of one connection, in each direction.
type connState struct{ sent, got int }

// opened counts an opened connection. It returns true if all connections are open now.
func (m *cmatose) opened(c *reactor.Conn) bool {
	// OnWritable may be called before startSending, and must not send any messages then.
	// So until startSending is called, all messages count as sent.
	c.SetContext(&connState{sent: m.opts.count})
	m.open = append(m.open, c)
	return len(m.open) >= m.opts.conns
}

// startSending starts to send the messages of connection c.
func (m *cmatose) startSending(c *reactor.Conn) {
	c.Context().(*connState).sent = 0
	m.OnWritable(c)
}

// OnWritable sends messages until the send queue is full.
func (m *cmatose) OnWritable(c *reactor.Conn) {
	for t := c.Context().(*connState); t.sent < m.opts.count; t.sent++ {
		err := c.Send(make([]byte, m.opts.size))
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
	t := c.Context().(*connState)
	t.got++
	return t.got == m.opts.count
}

// onClosed counts a connection that has closed. After the last connection it stops the
// endpoint.
func (m *cmatose) onClosed(c *reactor.Conn, err error) {
	m.check(err)
	if t := c.Context().(*connState); t.got != m.opts.count {
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

// OnConnectRequest accepts connection requests until it has accepted as many as the flag
// -conns says. It rejects all further requests.
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

// OnOpen waits until all connections are open, and then starts to send messages on each
// of them.
func (m cmatoseServer) OnOpen(c *reactor.Conn) {
	if !m.opened(c) {
		return
	}
	for _, c := range m.open {
		m.startSending(c)
	}
}

// OnMessage closes the connection after the client's last message has arrived.
func (m cmatoseServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if m.count(c, msg) {
		c.Close()
	}
}

// OnClose counts a connection that has closed because this server has called Close.
func (m cmatoseServer) OnClose(c *reactor.Conn, err error) { m.onClosed(c, err) }

type cmatoseClient struct{ *cmatose }

func newCmatoseClient(s *endpoint) reactor.Handler { return cmatoseClient{&cmatose{endpoint: s}} }

// OnOpen waits until all connections are open. Then it dials as many further connections
// as the flag -refused says. The server must reject these.
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

// OnDialError is called when a connection could not be opened. The server is expected to
// reject the additional connections, so OnDialError counts a reject. Any other error ends
// the client with that error.
func (m cmatoseClient) OnDialError(_ *reactor.DialOptions, err error) {
	var rejected *cm.RejectError
	if len(m.open) < m.opts.conns || !errors.As(err, &rejected) || rejected.Reason != cm.RejectConsumer {
		m.stop(err)
		return
	}
	fmt.Fprintln(m.out, "refused:", err)
	m.refused++
	m.finish()
}

// rejectTime is how long the client waits before it sends messages, if the test has
// additional requests that the server must reject. A ucmatose server handles these
// requests only after it has received the client's messages, and exits soon after that.
// Because of the wait, the requests have arrived at the server before it exits.
const rejectTime = 500 * time.Millisecond

// OnMessage sends the client's messages on the connection after the server's last
// message has arrived.
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
