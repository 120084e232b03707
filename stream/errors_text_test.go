package stream_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// A textCase is an error and its whole text.
type textCase struct {
	err  error
	want string
}

func checkTexts(t *testing.T, cases []textCase) {
	t.Helper()
	for _, c := range cases {
		require.EqualError(t, c.err, c.want)
	}
}

// TestNetworkErrorTexts has the errors of a Network. Each names the operation and the address
// once.
func TestNetworkErrorTexts(t *testing.T) {
	n := newNetwork(t, path{}, stream.NetworkConfig{})
	dial := func(network, addr string) error { _, err := n.Dial(network, addr); return err }
	listen := func(network, addr string) error { _, err := n.Listen(network, addr); return err }
	ln, err := n.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := ln.Addr().(stream.Addr)
	c, err := n.Dial("tcp", at.String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	ends := c.LocalAddr().String() + "->" + at.String()
	read := func() error { _, err := c.Read(make([]byte, 1)); return err }
	foreign := newNetwork(t, path{client: netip.MustParseAddrPort("192.0.2.77:0")}, stream.NetworkConfig{}) // RFC 5737; no host has it.
	closed := newNetwork(t, path{}, stream.NetworkConfig{})
	require.NoError(t, closed.Close())
	use := func(n *stream.Network, f func(n *stream.Network) error) error { return f(n) }
	dialAt := func(n *stream.Network) error { _, err := n.Dial("tcp", at.String()); return err }
	listenOn := func(n *stream.Network) error { _, err := n.Listen("tcp", "127.0.0.1:7"); return err }
	checkTexts(t, []textCase{
		{dial("udp", "127.0.0.1:1"), "dial rdma: unknown network udp"},
		{dial("tcp", "127.0.0.1"), "dial rdma: address 127.0.0.1: missing port in address"},
		{dial("tcp", "127.0.0.1:0"), "dial rdma 127.0.0.1:0: port 0: the minimum is 1"},
		{dial("tcp", "127.0.0.1:1"), "dial rdma 127.0.0.1:1: connection refused: no listener: " +
			"no process listens on the local path, and PathAuto does not use the wire path to an address of this host"},
		{use(foreign, dialAt), "dial rdma " + at.String() + ": address not available: 192.0.2.77 is no address of this host"},
		{use(closed, dialAt), "dial rdma " + at.String() + ": use of closed network connection"},
		{use(closed, listenOn), "listen rdma 127.0.0.1:7: use of closed network connection"},
		{listen("udp", "127.0.0.1:1"), "listen rdma: unknown network udp"},
		{listen("tcp", "224.0.0.1:1"), "listen rdma 224.0.0.1:1: address: 224.0.0.1 is a multicast address, to which an ID can not be bound"},
		{read(), "read rdma " + ends + ": use of closed network connection"},
		{c.Close(), "close rdma " + ends + ": use of closed network connection"},
	})
	require.NoError(t, ln.Close())
	checkTexts(t, []textCase{{ln.Close(), "close rdma " + at.String() + ": use of closed network connection"}})
	require.ErrorIs(t, closed.Close(), nil)
	require.ErrorIs(t, dialAt(closed), net.ErrClosed)
}

// TestConfigErrorTexts has the errors of New, Listen and Dial for values out of range.
func TestConfigErrorTexts(t *testing.T) {
	device, err := soft.Open(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	l := newLoop(t, path{}, nil)
	create := func(c stream.NetworkConfig) error { _, err := stream.New(device, &c); return err }
	dial := func(o stream.DialOptions) error {
		return stream.Dial(l.Engine(), netip.MustParseAddrPort("127.0.0.1:7"), stream.BaseHandler{}, &o)
	}
	listen := func(o stream.ListenOptions) error {
		_, err := stream.Listen(l.Engine(), loopback, stream.BaseHandler{}, &o)
		return err
	}
	checkTexts(t, []textCase{
		{create(stream.NetworkConfig{Backlog: -1}), "rdma: create network: Backlog -1: the minimum is 0"},
		{create(stream.NetworkConfig{CloseTimeout: -1e9}), "rdma: create network: CloseTimeout -1s: the minimum is 0s"},
		{create(stream.NetworkConfig{Buffers: stream.Buffers{Receive: 1}}), "rdma: create network: Buffers.Receive 1: the minimum is 128"},
		{create(stream.NetworkConfig{Buffers: stream.Buffers{Send: 1<<30 + 1}}), "rdma: create network: Buffers.Send 1073741825: the limit is 1073741824"},
		{create(stream.NetworkConfig{Reactor: reactor.Config{NumLoops: 2}}), "rdma: create loop: NumLoops 2: the application runs the loop, and NewLoop makes only one"},
		{create(stream.NetworkConfig{Reactor: reactor.Config{CPUs: []int{1}}}), "rdma: create loop: CPU 1: the application runs the loop and pins its own thread"},
		{create(stream.NetworkConfig{Reactor: reactor.Config{MaxInFlight: 15}}), "rdma: create network: MaxInFlight 15: the minimum for streams is 16"},
		{dial(stream.DialOptions{Buffers: stream.Buffers{Receive: 3}}), "rdma: dial: Buffers.Receive 3: the minimum is 128"},
		{dial(stream.DialOptions{PrivateData: make([]byte, 17)}), "rdma: dial: private data 17: the limit is 16"},
		{dial(stream.DialOptions{Timeout: -1}), "rdma: dial: timeout -1ns: the minimum is 0s"},
		{listen(stream.ListenOptions{Buffers: stream.Buffers{Send: -1}}), "rdma: listen: Buffers.Send -1: the minimum is 1"},
	})
}
