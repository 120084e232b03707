package reactor_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestRequestWithdrawn checks the error of an answer to a request that a newer request
// has replaced. The server allows one half-open request only.
func TestRequestWithdrawn(t *testing.T) {
	port := freeWirePort(t)
	open := func(halfOpen int, h reactor.Handler) *reactor.Engine {
		p, err := soft.Open(&soft.Config{Vectors: 1, Path: soft.PathWire, WirePort: port, MaxHalfOpen: halfOpen})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		e, err := reactor.New(p, h, nil)
		require.NoError(t, err)
		t.Cleanup(func() { shutdown(t, e) })
		require.NoError(t, e.Start())
		return e
	}
	kept := make(chan *reactor.ConnRequest, 16)
	server := open(1, &hooks{request: func(req *reactor.ConnRequest) { kept <- req }})
	ln, err := server.Listen(netip.MustParseAddrPort("127.71.1.1:0"), nil)
	require.NoError(t, err)

	opened := make(chan *reactor.Conn, 2)
	first := open(0, &hooks{open: func(c *reactor.Conn) { opened <- c }})
	require.NoError(t, first.Dial(ln.Addr(), &reactor.DialOptions{LocalAddr: netip.MustParseAddrPort("127.71.1.2:0")}))
	old := receive(t, kept)
	require.Equal(t, 1, reactor.PendingRequests(server))

	second := open(0, &hooks{open: func(c *reactor.Conn) { opened <- c }})
	require.NoError(t, second.Dial(ln.Addr(), &reactor.DialOptions{LocalAddr: netip.MustParseAddrPort("127.71.1.3:0")}))
	for req := receive(t, kept); req.RemoteAddr().Addr() == old.RemoteAddr().Addr(); req = receive(t, kept) {
		// The first client has repeated its request. The second client's request has not
		// arrived yet.
		old = req
	}
	await(t, func() bool { return old.Steer(old.Loop()) != nil })
	require.ErrorIs(t, old.Accept(nil), verbs.ErrPeerGone)
	require.ErrorIs(t, old.Reject(nil), verbs.ErrPeerGone)
	await(t, func() bool { return reactor.PendingRequests(server) <= 1 })
}
