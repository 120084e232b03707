package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/latency"
)

// A peer is a library or a program that is measured. It runs in two processes: a server
// and a client.
type peer struct {
	name string
	// missing returns an error if the peer can not run on this machine. Nil means that
	// the peer can always run.
	missing  func() error
	variants []variant
	// fits reports whether the peer can run a case. Nil means that the peer can run all
	// cases.
	fits    func(Case) bool
	serve   func(*spec) (server, error)
	connect func(*spec) (client, error)
}

// A variant is a path of the messages and a way to wait for them.
type variant struct{ path, mode string }

func ownPeers() []*peer {
	return []*peer{rdmaloopPeer(), rdmacorePeer(), gnetPeer(), gnetRDMAPeer(), stdlibPeer(), streamPeer(), cacheLinePeer(), memcpyPeer(), rawUDPPeer()}
}

func peerNamed(name string) (*peer, error) {
	peers := ownPeers()
	i := slices.IndexFunc(peers, func(p *peer) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("no peer %q", name)
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
	for _, workload := range workloads() {
		for _, c := range casesOf(workload, o) {
			for _, v := range p.variants {
				c.Peer, c.Path, c.Mode = p.name, v.path, v.mode
				// A busy loop needs a processor of its own. In workLoops, every loop needs one.
				few := len(latency.AllowedCPUs()) < processorsFor(c.loops())
				tooFew := few && (c.Mode == "busy" || c.Loops > 0)
				if o.wantsCase(c) && !tooFew && (p.fits == nil || p.fits(c)) {
					cases = append(cases, c)
				}
			}
		}
	}
	return cases
}

func (p *peer) Run(ctx context.Context, c Case) (Row, error) {
	return measurePair(ctx, spec{Case: c, Measure: c.For, WarmUp: c.warmUp()})
}

// warmUp returns the duration of the warm-up. With many active connections it is longer,
// because the first use of a connection is slow.
func (c Case) warmUp() time.Duration {
	const most, sharing = 100 * time.Millisecond, 50
	d := min(c.For/4, most)
	if c.Workload == workConnsActive {
		d *= time.Duration(1 + c.Connections/sharing)
	}
	return d
}
