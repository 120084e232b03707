package reactor_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestWaitingDialsAreLimited checks that at most Config.MaxConns calls of Dial can wait
// for the loop.
func TestWaitingDialsAreLimited(t *testing.T) {
	const limit = 3
	server := newLoop(t, &hooks{}, nil)
	addr := listen(t, server.Engine())
	failed := 0
	client := newLoop(t, &hooks{dialError: func(*reactor.DialOptions, error) { failed++ }}, &reactor.Config{MaxConns: limit})
	for range limit {
		require.NoError(t, client.Engine().Dial(addr, nil))
	}
	err := client.Engine().Dial(addr, nil)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	var full *verbs.ParamError
	require.ErrorAs(t, err, &full)
	require.EqualValues(t, limit, full.Limit)
	require.Equal(t, limit, client.Conns(), "the refused call does not count")
	drive(t, func() bool { return client.Stats().Opened == limit }, client, server)
	require.NoError(t, client.Engine().Dial(addr, nil), "no call waits any more")
	drive(t, func() bool { return failed == 1 }, client, server)
}

// TestDialRefusesAddresses checks that Dial refuses addresses to which no connection is
// possible, without a callback.
func TestDialRefusesAddresses(t *testing.T) {
	client := newLoop(t, &hooks{dialError: func(_ *reactor.DialOptions, err error) { t.Error(err) }}, nil)
	for addr, text := range map[netip.AddrPort]string{
		{}:                                     "rdma: dial: address: missing, or not valid",
		netip.MustParseAddrPort("0.0.0.0:1"):   "rdma: dial: address: 0.0.0.0 is the wildcard address, which is not a destination",
		netip.MustParseAddrPort("[::]:1"):      "rdma: dial: address: :: is the wildcard address, which is not a destination",
		netip.MustParseAddrPort("224.0.0.1:1"): "rdma: dial: address: 224.0.0.1 is a multicast address, to which no connection is possible",
		netip.MustParseAddrPort("127.0.0.1:0"): "rdma: dial: port 0: the minimum is 1",
	} {
		err := client.Engine().Dial(addr, nil)
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param)
		require.EqualError(t, err, text)
	}
}

// TestDialErrorHasOptions checks that OnDialError gets the address and a pointer to
// options, even after a Dial without options.
func TestDialErrorHasOptions(t *testing.T) {
	var options *reactor.DialOptions
	var failed error
	client := newLoop(t, &hooks{dialError: func(o *reactor.DialOptions, err error) { options, failed = o, err }}, nil)
	addr := netip.MustParseAddrPort("127.0.0.1:1")
	require.NoError(t, client.Engine().Dial(addr, nil))
	drive(t, func() bool { return failed != nil }, client)
	require.Equal(t, &reactor.DialOptions{}, options)
	require.ErrorContains(t, failed, "dial "+addr.String())
}

// TestDialCopiesOptions checks that changes of the options after Dial have no effect.
func TestDialCopiesOptions(t *testing.T) {
	var request *reactor.ConnRequest
	var dialed *reactor.Conn
	server := newLoop(t, &hooks{request: func(req *reactor.ConnRequest) {
		request = req
		require.NoError(t, req.Accept(nil))
	}}, nil)
	client := newLoop(t, &hooks{open: func(c *reactor.Conn) { dialed = c }}, nil)
	o := &reactor.DialOptions{PrivateData: []byte("first"), UserData: "first"}
	require.NoError(t, client.Engine().Dial(listen(t, server.Engine()), o))
	copy(o.PrivateData, "other")
	o.UserData, o.Handler, o.LocalAddr = "other", reactor.BaseHandler{}, netip.MustParseAddrPort("192.0.2.1:1")
	drive(t, func() bool { return dialed != nil }, client, server)
	require.Equal(t, "first", string(request.PrivateData()))
	require.Equal(t, "first", dialed.UserData)
	require.Same(t, o, dialed.Info().DialOptions)
}
