//go:build linux

package qp

import (
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Destination is what an address handle means on this host.
type Destination struct {
	To     udp.Route // route of datagrams on the wire path; zero on the local path
	Source verbs.GID // source address of datagrams on the local path
}

// OverWire reports whether datagrams use the wire path.
func (d *Destination) OverWire() bool { return d.To.Remote.IsValid() }

// AH implements verbs.AH.
type AH struct {
	Destination
	pd     *pd
	attr   verbs.AHAttr
	closed atomic.Bool
}

// CreateAH implements verbs.PD.
func (p *pd) CreateAH(attr *verbs.AHAttr) (verbs.AH, error) {
	if attr == nil {
		return nil, operr.Wrap("create AH", errNilAttr)
	}
	if p.closed.Load() {
		return nil, operr.Wrap("create AH", verbs.ErrClosed)
	}
	to, err := p.engine.Host.Resolve(attr)
	if err != nil {
		return nil, operr.Wrap("create AH", err)
	}
	p.refs.Add(1)
	return &AH{Destination: to, pd: p, attr: *attr}, nil
}

// Attr implements verbs.AH.
func (a *AH) Attr() verbs.AHAttr { return a.attr }

// Close implements verbs.AH.
func (a *AH) Close() error {
	if !a.closed.Swap(true) {
		a.pd.refs.Add(-1)
	}
	return nil
}
