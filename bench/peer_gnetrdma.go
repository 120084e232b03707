package main

import (
	"errors"
	"net/netip"
	"os"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
)

// gnetRDMAPeer returns the peer whose handler is that of gnetPeer, served by package
// gnetrdma.
func gnetRDMAPeer() *peer {
	return &peer{
		name:     "gnetrdma",
		variants: inEachMode(pathLocal, pathWire),
		fits:     func(c Case) bool { return !c.oneSided() && c.Workload != workLoops },
		serve:    serveGnetRDMA,
		connect:  connectGnetRDMA,
	}
}

func gnetRDMAConfig(s *spec) (*gnetrdma.Config, error) {
	p, err := openProvider(s)
	if err != nil {
		return nil, err
	}
	cfg := engineConfig(s)
	cfg.MaxInFlight, cfg.MaxMessage = 0, 0 // the defaults of gnetrdma
	return &gnetrdma.Config{Provider: p, Reactor: *cfg}, nil
}

func serveGnetRDMA(s *spec) (server, error) {
	cfg, err := gnetRDMAConfig(s)
	if err != nil {
		return nil, err
	}
	host, err := listenAddress(s)
	if err != nil {
		return nil, err
	}
	// A handler of gnet does not learn the port that Run has chosen. So it gets one below
	// those that clients are given, which another run of bench seldom has.
	at := netip.AddrPortFrom(host.Addr(), uint16(10_000+os.Getpid()%20_000))
	g := &gnetServer{spec: s, ready: make(chan error, 2), addr: at.String(), workers: startWorkers(s)}
	go func() {
		err := cfg.Run(g, "rdma://"+g.addr, gnetOptions())
		g.ready <- errors.Join(errors.New("gnetrdma ended"), err)
	}()
	return g, <-g.ready
}

func connectGnetRDMA(s *spec) (client, error) {
	cfg, err := gnetRDMAConfig(s)
	if err != nil {
		return nil, err
	}
	g := newGnetClient(s)
	c, err := cfg.NewClient(g, gnetOptions())
	if err != nil {
		return nil, err
	}
	g.client = c
	return g.driver, c.Start()
}
