//go:build linux

package hostile

import (
	"errors"
	"runtime"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// Largest number of echoes that may wait for room in the send queue of a connection. If
// there are more, the server ends the connection. Arbitrary.
const maxBacklog = 256

var (
	errBacklog  = errors.New("the client does not receive its echoes")
	errNoMemory = errors.New("no memory to keep the message")
)

// A server is an echo server: it sends every message back.
type server struct {
	reactor.BaseHandler
	node
	greet  bool // Spec.Greet
	closed kinds
}

func (s *server) start(spec *Spec) (Note, error) {
	s.greet = spec.Greet
	if err := s.open(spec, s); err != nil {
		return Note{}, err
	}
	listener, err := s.engine.Listen(spec.Addr, nil)
	if err != nil {
		return Note{}, err
	}
	return Note{Addr: listener.Addr()}, nil
}

func (s *server) report() Note {
	stats := s.engine.Stats()
	return Note{Server: ServerState{
		Conns: stats.Conns, Opened: stats.Opened, Requests: stats.Requests,
		Goroutines: runtime.NumGoroutine(), Longest: stats.LongestTurn, Counters: s.counters(), Closed: s.closed.copy(),
	}}
}

func (s *server) await() {}

func (s *server) finish() (Note, error) {
	note := s.report()
	return note, s.close()
}

// A backlog has the echoes that wait for the send queue, oldest first.
type backlog struct{ held []*reactor.Buffer }

// OnOpen gives the connection an empty backlog.
func (s *server) OnOpen(c *reactor.Conn) {
	c.UserData = &backlog{}
	if s.greet {
		_ = c.Send([]byte("welcome"), nil) // After an error OnClose follows.
	}
}

// OnMessage sends the message back. If the send queue is full, the message waits in the
// backlog.
func (s *server) OnMessage(c *reactor.Conn, msg reactor.Message) {
	waiting := c.UserData.(*backlog)
	if len(waiting.held) == 0 && !errors.Is(c.Send(msg.Data(), nil), reactor.ErrWouldBlock) {
		return
	}
	if len(waiting.held) == maxBacklog {
		// Abort fails if the connection is ending already.
		_ = c.Abort(errBacklog)
		return
	}
	buf := msg.Keep()
	if buf == nil {
		_ = c.Abort(errNoMemory)
		return
	}
	waiting.held = append(waiting.held, buf)
}

// OnWritable sends the echoes in the backlog.
func (s *server) OnWritable(c *reactor.Conn) {
	waiting := c.UserData.(*backlog)
	for len(waiting.held) > 0 && c.SendBuffer(waiting.held[0], nil) == nil {
		waiting.held = waiting.held[1:]
	}
}

// OnClose counts the error, and releases the echoes in the backlog.
func (s *server) OnClose(c *reactor.Conn, err error) {
	s.closed.count(err)
	for _, buf := range c.UserData.(*backlog).held {
		buf.Release()
	}
}
