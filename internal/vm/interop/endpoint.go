package main

import (
	"fmt"
	"io"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// Smallest reactor.Config.MaxMessage of this program. Every control message of all
// protocols fits.
const minMaxMessage = 64

// An endpoint is what all handlers have in common. After the start, only the engine's
// single loop uses it.
type endpoint struct {
	reactor.BaseHandler
	opts   *options
	out    io.Writer
	engine *reactor.Engine
	err    error // first error that stopped the endpoint, or nil
}

// start makes a server listen, or opens the first connections of a client.
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

// stop stops the engine. The parameter err becomes the result of the program.
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

// OnAcceptError stops the engine, because no protocol can continue.
func (e *endpoint) OnAcceptError(_ *reactor.ConnRequest, err error) { e.stop(err) }

// OnDialError stops the engine, because no protocol can continue.
func (e *endpoint) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	e.stop(err)
}
