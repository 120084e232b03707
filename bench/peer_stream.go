package main

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// streamPeer returns the peer whose programs are those of stdlibPeer, with connections of
// package stream.
func streamPeer() *peer {
	return &peer{
		name: "stream",
		variants: []variant{
			{pathLocal, "event"}, {pathLocal, "adaptive"}, {pathWire, "event"}, {pathWire, "adaptive"},
		},
		fits:    Case.blocks,
		serve:   serveStream,
		connect: connectStream,
	}
}

func openNetwork(s *spec, local netip.Addr) (*stream.Network, error) {
	p, err := openProvider(s)
	if err != nil {
		return nil, err
	}
	cfg := &stream.NetworkConfig{LocalAddr: local, Reactor: reactor.Config{MaxConns: -1}}
	if s.Mode == "event" {
		cfg.SpinBudget = -1
	}
	if s.measuresMemory() { // as much as TCP has for each connection at first
		const size = 16 << 10
		cfg.Buffers = stream.Buffers{Receive: size, Send: size}
	}
	return stream.New(p, cfg)
}

func serveStream(s *spec) (server, error) {
	n, err := openNetwork(s, netip.Addr{})
	if err != nil {
		return nil, err
	}
	addr, err := listenAddress(s)
	if err != nil {
		return nil, err
	}
	l, err := n.Listen("tcp", addr.String())
	if err != nil {
		return nil, err
	}
	return newTCPServer(s, l), nil
}

func connectStream(s *spec) (client, error) {
	from, err := fromAddress(s)
	if err != nil {
		return nil, err
	}
	n, err := openNetwork(s, from.Addr())
	if err != nil {
		return nil, err
	}
	return newTCPClient(s, n.Dial), nil
}
