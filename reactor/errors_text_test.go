package reactor_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestErrorTexts has the whole text of errors as a user meets them. Each names what is wrong.
func TestErrorTexts(t *testing.T) {
	foreign := netip.MustParseAddr("192.0.2.77") // RFC 5737; no host has it.
	failed := make(chan error, 1)
	e := start(t, &hooks{dialError: func(_ *reactor.DialOptions, err error) { failed <- err }}, &reactor.Config{ConnectTimeout: time.Second})
	addr := listen(t, e)
	listenAt := func(at netip.AddrPort) error {
		_, err := e.Listen(at, nil)
		return err
	}
	dialFrom := func(local netip.Addr) error {
		require.NoError(t, e.Dial(addr, &reactor.DialOptions{LocalAddr: netip.AddrPortFrom(local, 0)}))
		return receive(t, failed)
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{listenAt(netip.AddrPort{}), "rdma: cm bind: address: the address is not valid"},
		{listenAt(netip.AddrPortFrom(foreign, 7)), "rdma: cm bind: address not available: 192.0.2.77 is no address of this host"},
		{e.Dial(netip.AddrPort{}, nil), "rdma: dial: address: the address is not valid"},
		{dialFrom(foreign), "dial " + addr.String() + ": rdma: cm resolve address: address not available: 192.0.2.77 is no address of this host"},
		{dialFrom(netip.IPv6Loopback()), "dial " + addr.String() + ": rdma: cm resolve address: source family 6: not the family of the destination"},
		{e.Start(), "rdma: start engine: wrong state: the engine was started before"},
	} {
		require.EqualError(t, test.err, test.want)
	}
}

// TestTooLongTexts has the texts for messages that are too long.
func TestTooLongTexts(t *testing.T) {
	for long, want := range map[int]string{
		0:       "rdma: send: message 5000: Config.MaxMessage is 4096",
		1 << 20: "rdma: send: message 5000: Config.MaxMessage is 4096, and the peer takes no long messages: it has not set Config.MaxLongMessage",
	} {
		var c *reactor.Conn
		server := newLoop(t, &hooks{}, nil)
		client := newLoop(t, &hooks{open: func(opened *reactor.Conn) { c = opened }}, &reactor.Config{MaxLongMessage: long})
		require.NoError(t, client.Dial(listen(t, server.Engine()), nil))
		drive(t, func() bool { return c != nil }, client, server)
		r, err := client.Engine().Alloc(5000, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
		require.NoError(t, err)
		require.EqualError(t, c.Send(make([]byte, 5000)), want)
		require.EqualError(t, c.SendV([]reactor.Piece{{Region: r, Length: 5000}}, reactor.SendOptions{}), want)
	}
}
