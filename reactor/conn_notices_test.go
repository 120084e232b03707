//go:build linux

package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestCloseWithFullRing closes connections of a client whose ring to the server is full.
// The notices about the end of these connections wait for room in the ring. The
// disconnect requests do not use the ring, so they arrive earlier. The client has
// received a message of the server on each connection that it closes last. So no send of
// the server may fail.
func TestCloseWithFullRing(t *testing.T) {
	const ringSlots = 8
	newLoop := func(h reactor.Handler) *reactor.Loop {
		p, err := soft.Open(&soft.Config{RingSlots: ringSlots})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		l, err := reactor.NewLoop(p, h, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		return l
	}
	var dialed, accepted []*reactor.Conn
	received := 0
	server := newLoop(&hooks{open: func(c *reactor.Conn) { accepted = append(accepted, c) }})
	client := newLoop(&hooks{
		open: func(c *reactor.Conn) { dialed = append(dialed, c) },
		message: func(c *reactor.Conn, _ reactor.Message) {
			received++
			require.NoError(t, c.Close())
		},
	})
	ln, err := server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	open := func(n int) {
		n += len(dialed)
		for range n - len(dialed) {
			require.NoError(t, client.Engine().Dial(ln.Addr(), nil))
		}
		drive(t, func() bool { return len(dialed) == n && len(accepted) == n }, client, server)
	}
	open(ringSlots)
	last := accepted[:ringSlots]
	open(3 * ringSlots)

	inTurn(t, client, func() {
		for _, c := range dialed[ringSlots:] {
			require.NoError(t, c.Close())
		}
	})
	inTurn(t, server, func() {
		for _, c := range last {
			require.NoError(t, c.Send([]byte("hello"), nil))
		}
	})
	inTurn(t, client, func() {})
	require.Equal(t, ringSlots, received)
	for range 100 {
		inTurn(t, server, func() {})
	}
	drive(t, func() bool { return server.Stats().Closed == 4*ringSlots }, client, server)
	require.Zero(t, server.Stats().Failed)
	require.EqualValues(t, ringSlots, server.Stats().Confirmed)
}
