package reactor_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestOpeningConns checks that a loop counts the connections that are opening.
func TestOpeningConns(t *testing.T) {
	refused := false
	client := &hooks{}
	p := connect(t, client, &hooks{}, nil)
	require.Zero(t, reactor.OpeningConns(p.client))
	require.Zero(t, reactor.OpeningConns(p.server))

	client.dialError = func(*reactor.DialOptions, error) { refused = true }
	require.NoError(t, p.client.Engine().Dial(netip.MustParseAddrPort("127.0.0.1:1"), nil))
	drive(t, func() bool { return reactor.OpeningConns(p.client) == 1 }, p.client)
	drive(t, func() bool { return refused }, p.client)
	require.Zero(t, reactor.OpeningConns(p.client))

	require.NoError(t, p.dialed.Close())
	p.closed(t)
	require.Zero(t, reactor.OpeningConns(p.client))
	require.Zero(t, reactor.OpeningConns(p.server))
}

// TestNegotiatedParameters checks the parameters of both sides. Each side has the RNR
// retry count that its peer has set.
func TestNegotiatedParameters(t *testing.T) {
	var dialed, accepted *reactor.Conn
	server := newLoop(t, &hooks{
		open: func(c *reactor.Conn) { accepted = c },
		request: func(req *reactor.ConnRequest) {
			require.NoError(t, req.Accept(&reactor.AcceptOptions{ResponderResources: 2, InitiatorDepth: 4}))
		},
	}, nil)
	client := newLoop(t, &hooks{open: func(c *reactor.Conn) { dialed = c }}, nil)
	ln, err := server.Engine().Listen(loopback, &reactor.ListenOptions{RNRRetryCount: 3})
	require.NoError(t, err)
	require.NoError(t, client.Engine().Dial(ln.Addr(), &reactor.DialOptions{RNRRetryCount: 5, RetryCount: 6}))
	drive(t, func() bool { return dialed != nil && accepted != nil }, client, server)
	parameters := func(c *reactor.Conn) [4]uint8 {
		i := c.Info()
		return [4]uint8{i.ResponderResources, i.InitiatorDepth, i.RetryCount, i.RNRRetryCount}
	}
	require.Equal(t, [4]uint8{4, 2, 6, 3}, parameters(dialed))
	require.Equal(t, [4]uint8{2, 4, 6, 5}, parameters(accepted))
}
