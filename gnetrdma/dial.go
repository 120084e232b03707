package gnetrdma

import (
	"net/netip"

	"github.com/panjf2000/gnet/v2"

	"github.com/rdmaloop/rdmaloop/stream"
)

// dial begins to open a connection. If l is nil, the engine chooses the loop. The channel
// gets one result.
func (e *engine) dial(l *loop, addr netip.AddrPort, context any) (<-chan gnet.RegisteredResult, error) {
	c := newConn(e)
	c.context = context
	result := make(chan gnet.RegisteredResult, 1)
	c.result = result // From Dial on, c belongs to the loop.
	o := &stream.DialOptions{Buffers: e.cfg.Buffers, Context: c}
	if l != nil {
		o.Loop = l.reactor
	}
	if err := stream.Dial(e.reactor, addr, &callbacks{engine: e}, o); err != nil {
		return nil, err
	}
	return result, nil
}
