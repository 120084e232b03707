//go:build linux

package hostile

import (
	"github.com/rdmaloop/rdmaloop/reactor"
)

// hangingMessages is how many long messages a hangingClient sends on each connection. The
// server reads one after the other, so the loop hangs before it has read them all.
const hangingMessages = 8

// A hangingClient sends long messages on all connections, and then blocks its loop.
type hangingClient struct {
	reactor.BaseHandler
	node
	a *attacker
	// open connections; only the loop uses the list
	conns []*reactor.Conn
}

// hang is the attack of RoleHanging. The memory of the messages is private, so the server
// has to wait for READs.
func hang(a *attacker) error {
	c := &hangingClient{a: a}
	s := a.spec
	s.MaxLongMessage, s.PrivateRegions = LongMessage, true
	if err := c.open(&s, c); err != nil {
		return err
	}
	for range s.Conns {
		if err := c.engine.Dial(s.Addr, &reactor.DialOptions{LocalAddr: s.localAddr()}); err != nil {
			return err
		}
	}
	<-a.ctx.Done()
	return c.close()
}

// OnOpen begins the attack when all connections are open.
func (c *hangingClient) OnOpen(conn *reactor.Conn) {
	if c.conns = append(c.conns, conn); len(c.conns) < c.a.spec.Conns {
		return
	}
	for _, conn := range c.conns {
		for range hangingMessages {
			_ = conn.Send(make([]byte, LongMessage), nil) // The test counts the connections that end.
		}
	}
	c.a.count(func(n *Attack) { n.Admitted = uint64(len(c.conns)) })
	// The messages are announced at the end of this turn, and the next one hangs.
	_ = conn.Loop().Post(c.a.waitForStop) // A new loop has room for the function.
}
