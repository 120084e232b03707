package main

import (
	"fmt"
	"io"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// smallest is enough for the messages that a protocol sends about itself.
const smallest = 64

// A side is what the handlers of all protocols have in common. Once the engine
// has started it belongs to the one loop of that.
type side struct {
	reactor.BaseHandler
	opts   *options
	out    io.Writer
	engine *reactor.Engine
	err    error // the first thing that went wrong
}

// start listens, or opens the first connections.
func (s *side) start() error {
	if s.opts.listen {
		listener, err := s.engine.Listen(s.opts.addr)
		if err == nil {
			fmt.Fprintf(s.out, "listening on %v\n", listener.Addr())
		}
		return err
	}
	for range s.opts.conns {
		if err := s.engine.Dial(s.opts.addr, nil); err != nil {
			return err
		}
	}
	return nil
}

// end ends it all: well if err is nil.
func (s *side) end(err error) {
	if s.err == nil {
		s.err = err
	}
	s.engine.Stop()
}

// must ends it all if there is an error.
func (s *side) must(err error) {
	if err != nil {
		s.end(err)
	}
}

// OnAcceptError and OnDialError: no protocol goes on after them.
func (s *side) OnAcceptError(_ *reactor.ConnRequest, err error) { s.end(err) }

// OnDialError says that there is no connection.
func (s *side) OnDialError(_ *reactor.Dial, err error) { s.end(err) }
