//go:build linux

package hostile

import (
	"runtime"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// A streamCallbacks is a stream server on the callbacks of package stream. It sends all
// bytes back, and learns the exact error of each stream.
type streamCallbacks struct {
	stream.BaseHandler
	node
	closed kinds
}

func (s *streamCallbacks) start(spec *Spec) (Note, error) {
	if err := s.open(spec, reactor.BaseHandler{}); err != nil {
		return Note{}, err
	}
	listener, err := stream.Listen(s.engine, spec.Addr, s, nil)
	if err != nil {
		return Note{}, err
	}
	return Note{Addr: listener.Addr()}, nil
}

func (s *streamCallbacks) report() Note {
	stats := s.engine.Stats()
	return Note{Server: ServerState{
		Conns: stats.Conns, Opened: stats.Opened, Requests: stats.Requests,
		Goroutines: runtime.NumGoroutine(), Longest: stats.LongestTurn, Closed: s.closed.copy(),
	}}
}

func (s *streamCallbacks) await() {}

func (s *streamCallbacks) finish() (Note, error) {
	note := s.report()
	return note, s.close()
}

// OnData sends the bytes back, as far as the peer has room.
func (*streamCallbacks) OnData(c *stream.Stream) {
	for c.Len() > 0 {
		n, err := c.Write(c.Bytes())
		c.Discard(n)
		if err != nil {
			return
		}
	}
}

// OnWritable continues OnData.
func (s *streamCallbacks) OnWritable(c *stream.Stream) { s.OnData(c) }

// OnEnd does nothing: the stream stays open for the other direction.
func (*streamCallbacks) OnEnd(*stream.Stream) {}

// OnClose counts the error.
func (s *streamCallbacks) OnClose(_ *stream.Stream, err error) { s.closed.count(err) }
