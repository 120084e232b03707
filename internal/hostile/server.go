//go:build linux

package hostile

import (
	"errors"
	"runtime"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// maxBacklog is how many messages a server keeps for a client that does not take
// its echoes. No client has so many on their way.
const maxBacklog = 256

var errBacklog = errors.New("the client does not take its echoes")

// A server sends back what it receives.
type server struct {
	reactor.BaseHandler
	node
}

func (s *server) start(spec *Spec) (Note, error) {
	if err := s.open(spec, s); err != nil {
		return Note{}, err
	}
	listener, err := s.engine.Listen(spec.Addr)
	if err != nil {
		return Note{}, err
	}
	return Note{Addr: listener.Addr()}, nil
}

func (s *server) report() Note {
	stats := s.engine.Stats()
	return Note{Server: ServerState{
		Conns: stats.Conns, Opened: stats.Opened, Requests: stats.Requests,
		Goroutines: runtime.NumGoroutine(), Longest: stats.LongestTurn, Counters: s.counters(),
	}}
}

func (s *server) await() {}

func (s *server) finish() (Note, error) {
	note := s.report()
	return note, s.close()
}

// A backlog holds, in order, messages that found the send queue full.
type backlog struct{ held []*reactor.Buffer }

// OnOpen gives the connection its backlog.
func (s *server) OnOpen(c *reactor.Conn) { c.SetContext(&backlog{}) }

// OnMessage sends the message back, or keeps it until there is room.
func (s *server) OnMessage(c *reactor.Conn, msg reactor.Message) {
	late := c.Context().(*backlog)
	if len(late.held) == 0 && !errors.Is(c.Send(msg.Data()), reactor.ErrWouldBlock) {
		return
	}
	if len(late.held) == maxBacklog {
		// The connection may be ending already.
		_ = c.Abort(errBacklog)
		return
	}
	late.held = append(late.held, msg.Keep())
}

// OnWritable sends what was kept.
func (s *server) OnWritable(c *reactor.Conn) {
	late := c.Context().(*backlog)
	for len(late.held) > 0 && c.SendBuffer(late.held[0]) == nil {
		late.held = late.held[1:]
	}
}

// OnClose gives back what could not be sent any more.
func (s *server) OnClose(c *reactor.Conn, _ error) {
	for _, buf := range c.Context().(*backlog).held {
		buf.Release()
	}
}
