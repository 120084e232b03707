//go:build linux

package hostile

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A hangingClient announces a long message on each connection, and then blocks its loop.
type hangingClient struct {
	reactor.BaseHandler
	node
	a *attacker
	// number of open connections; only the loop uses it
	opened uint64
}

// hang is the attack of RoleHanging. The memory of the messages is private, so the server
// has to wait for READs.
func hang(a *attacker) error {
	c := &hangingClient{a: a}
	s := a.spec
	s.MaxLongMessage, s.PrivateRegions = longMessage, true
	if err := c.open(&s, c); err != nil {
		return err
	}
	options := &reactor.DialOptions{}
	if s.From.IsValid() {
		options.LocalAddr = netip.AddrPortFrom(s.From, 0)
	}
	for range s.Conns {
		if err := c.engine.Dial(s.Addr, options); err != nil {
			return err
		}
	}
	<-a.ctx.Done()
	return c.close()
}

// OnOpen announces the message. After the turn that opens the last connection, the loop
// hangs.
func (c *hangingClient) OnOpen(conn *reactor.Conn) {
	_ = conn.Send(make([]byte, longMessage)) // Without the message, the server does not wait.
	if c.opened++; c.opened == uint64(c.a.spec.Conns) {
		c.a.count(func(n *Attack) { n.Admitted = c.opened })
		_ = conn.Loop().Post(c.a.waitForStop) // A new loop has room for the function.
	}
}
