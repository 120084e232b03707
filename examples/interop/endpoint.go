package main

import (
	"fmt"
	"io"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// minMaxMessage is the smallest value of reactor.Config.MaxMessage that this program
// sets. A buffer of this size has room for every control message of all protocols.
const minMaxMessage = 64

// An endpoint has what the handlers of all protocols have in common. After the engine has
// started, only the engine's single loop uses the endpoint.
type endpoint struct {
	reactor.BaseHandler
	opts   *options
	out    io.Writer
	engine *reactor.Engine
	err    error // The error with which the endpoint was first stopped, or nil.
}

// start starts the endpoint: a server listens, and a client opens its first connections.
func (e *endpoint) start() error {
	if e.opts.listen {
		listener, err := e.engine.Listen(e.opts.addr, nil)
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

// stop stops the engine. The parameter err is the result of the program, nil for
// success.
func (e *endpoint) stop(err error) {
	if e.err == nil {
		e.err = err
	}
	e.engine.Stop()
}

// check stops the engine with the error err, unless err is nil.
func (e *endpoint) check(err error) {
	if err != nil {
		e.stop(err)
	}
}

// OnAcceptError stops the engine with the error. No protocol can continue after such an
// error.
func (e *endpoint) OnAcceptError(_ *reactor.ConnRequest, err error) { e.stop(err) }

// OnDialError stops the engine with the error, because no protocol can continue without
// the connection.
func (e *endpoint) OnDialError(_ *reactor.DialOptions, err error) { e.stop(err) }
