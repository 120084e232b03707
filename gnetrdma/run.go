package gnetrdma

import (
	"errors"
	"net/netip"
	"slices"
	"sync"

	"github.com/panjf2000/gnet/v2"
)

// Run is gnet.Run for an address of RDMA or of gnet. An address of RDMA is, for example,
// "rdma://:7471", "rdma://host:7471", "rdma4://:7471" or "rdma6://[::1]:7471". Run
// returns when the engine has ended: after gnet.Engine.Stop, or when a callback returns
// gnet.Shutdown. The result is then nil.
//
// Other errors are those of gnet.Run, of provider.Open, of reactor.New and stream.Listen,
// and the reason why the event loops have failed.
func Run(h gnet.EventHandler, protoAddr string, opts ...gnet.Option) error {
	return new(Config).Run(h, protoAddr, opts...)
}

// Rotate is Run for several addresses, as gnet.Rotate. Addresses of RDMA and of gnet may
// be mixed.
func Rotate(h gnet.EventHandler, addrs []string, opts ...gnet.Option) error {
	return new(Config).Rotate(h, addrs, opts...)
}

// CountConnections returns the number of connections of an engine that OnBoot has got
// from Run or Rotate: those of RDMA, and those that gnet.Engine.CountConnections counts.
// It is -1 if the engine has ended. Any goroutine may call it.
func CountConnections(e gnet.Engine) int {
	count := e.CountConnections()
	if own, ok := engines.Load(e); ok && count >= 0 {
		count += int(own.(*engine).conns.Load())
	}
	return count
}

// engines has the engine for each gnet.Engine of a running Run or Rotate. It is
// package-level state, because a gnet.Engine is the only thing that OnBoot passes to the
// program, and it has no field for a value of this package.
var engines sync.Map

// Run is the function Run with the options in c.
func (c *Config) Run(h gnet.EventHandler, protoAddr string, opts ...gnet.Option) error {
	return c.Rotate(h, []string{protoAddr}, opts...)
}

// Rotate is the function Rotate with the options in c.
func (c *Config) Rotate(h gnet.EventHandler, addrs []string, opts ...gnet.Option) error {
	endpoints, others, err := splitAddrs(addrs)
	if err != nil {
		return err
	}
	if len(endpoints) == 0 {
		return gnet.Rotate(h, others, opts...)
	}
	e, err := newEngine(c, h, opts, commonAddr(endpoints))
	if err != nil {
		return err
	}
	if err := e.listen(endpoints); err != nil {
		return errors.Join(err, e.discard())
	}
	return e.serve(others, opts)
}

// commonAddr returns the IP address of the endpoints if they have the same one.
// Otherwise it returns the zero value.
func commonAddr(endpoints []endpoint) netip.Addr {
	addr := endpoints[0].addr.Addr()
	for _, p := range endpoints {
		if p.addr.Addr() != addr {
			return netip.Addr{}
		}
	}
	return addr
}

// serve runs an engine of gnet until it stops, and with it the loops of e. The handler
// can stop a gnet.Engine only if it belongs to a running engine of gnet. If the program
// has no addresses of gnet, the engine of gnet listens at a private address.
func (e *engine) serve(addrs []string, opts []gnet.Option) error {
	b := &bridge{EventHandler: e.handler, engine: e}
	opts = slices.Clone(opts)
	if len(addrs) == 0 {
		b.private = newPrivateAddr()
		defer b.private.remove()
		addrs = []string{b.private.String()}
		opts = append(opts, gnet.WithMulticore(false), gnet.WithNumEventLoop(1))
	}
	opts = append(opts, gnet.WithTicker(true)) // see bridge.OnTick
	err := gnet.Rotate(b, addrs, opts...)
	if b.private != nil {
		err = b.private.explain(err)
	}
	engines.Delete(b.gnet)
	if !b.stop() {
		return errors.Join(err, b.err, e.discard())
	}
	return errors.Join(err, e.end())
}
