package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A peer is a library, or a floor, that this program measures itself, with a
// server and a client in a process each. It is a runner.
type peer struct {
	name    string
	missing func() error // nil: it is always there
	ways    []way
	fits    func(Case) bool // nil: it can do everything
	serve   func(*spec) (server, error)
	connect func(*spec) (client, error)
}

// A way is how messages travel, and how the programs wait for them.
type way struct{ path, mode string }

func ownPeers() []*peer {
	return []*peer{rdmaloopPeer(), rdmacorePeer(), gnetPeer(), stdlibPeer(), cacheLinePeer(), rawUDPPeer()}
}

func peerNamed(name string) (*peer, error) {
	peers := ownPeers()
	i := slices.IndexFunc(peers, func(p *peer) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no peer %q", name)
	}
	return peers[i], nil
}

func (p *peer) Name() string { return p.name }

func (p *peer) Missing() error {
	if p.missing == nil {
		return nil
	}
	return p.missing()
}

func (p *peer) Cases(o options) (cases []Case) {
	client, _ := processors()
	for _, workload := range workloads() {
		for _, c := range casesOf(workload, o) {
			for _, w := range p.ways {
				c.Peer, c.Path, c.Mode = p.name, w.path, w.mode
				alone := c.Mode == "busy" && client < 0 // two that never wait need a processor each
				if o.wantsCase(c) && !alone && (p.fits == nil || p.fits(c)) {
					cases = append(cases, c)
				}
			}
		}
	}
	return cases
}

func (p *peer) Run(ctx context.Context, c Case) (Row, error) {
	return pair(ctx, spec{Case: c, Measure: c.For, WarmUp: c.warmUp()})
}

// warmUp is how long to go before measuring. Active connections share that time,
// and each has memory to touch for the first time.
func (c Case) warmUp() time.Duration {
	const most, sharing = 100 * time.Millisecond, 50
	d := min(c.For/4, most)
	if c.Workload == workConnsActive {
		d *= time.Duration(1 + c.Connections/sharing)
	}
	return d
}
