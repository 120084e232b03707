package main

import (
	"fmt"
	"io"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// minMaxMessage is a message size that is enough for the control messages of all
// protocols.
const minMaxMessage = 64

// An endpoint is the common part of the handlers of all protocols. After the engine has
// started, it belongs to the engine's one loop.
type endpoint struct {
	reactor.BaseHandler
	opts   *options
	out    io.Writer
	engine *reactor.Engine
	err    error // The first error.
}

// start listens, or opens the first connections.
func (e *endpoint) start() error {
	if e.opts.listen {
		listener, err := e.engine.Listen(e.opts.addr)
		if err == nil {
			fmt.Fprintf(e.out, "listening on %v\n", listener.Addr())
		}
		return err
	}
	for range e.opts.conns {
		if err := e.engine.Dial(e.opts.addr, nil); err != nil {
			return err
		}
	}
	return nil
}

// stop stops the engine. err is nil on success.
func (e *endpoint) stop(err error) {
	if e.err == nil {
		e.err = err
	}
	e.engine.Stop()
}

// check stops the engine if err is not nil.
func (e *endpoint) check(err error) {
	if err != nil {
		e.stop(err)
	}
}

// OnAcceptError stops the engine. No protocol can continue after such an error.
func (e *endpoint) OnAcceptError(_ *reactor.ConnRequest, err error) { e.stop(err) }

// OnDialError stops the engine, because there is no connection.
func (e *endpoint) OnDialError(_ *reactor.Dial, err error) { e.stop(err) }
