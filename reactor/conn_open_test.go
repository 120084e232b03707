package reactor_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestOpeningConns checks that a loop counts the connections that are opening, until
// they are open or have failed.
func TestOpeningConns(t *testing.T) {
	refused := false
	client := &hooks{}
	p := connect(t, client, &hooks{}, nil)
	require.Zero(t, reactor.OpeningConns(p.client))
	require.Zero(t, reactor.OpeningConns(p.server))

	client.dialError = func(*reactor.DialOptions, error) { refused = true }
	require.NoError(t, p.client.Dial(netip.MustParseAddrPort("127.0.0.1:1"), nil))
	drive(t, func() bool { return reactor.OpeningConns(p.client) == 1 }, p.client)
	drive(t, func() bool { return refused }, p.client)
	require.Zero(t, reactor.OpeningConns(p.client))

	require.NoError(t, p.dialed.Close())
	p.closed(t)
	require.Zero(t, reactor.OpeningConns(p.client))
	require.Zero(t, reactor.OpeningConns(p.server))
}
