//go:build linux

package soft

import (
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A destination is what an address handle means on this host.
type destination struct {
	to     udp.Route // route of datagrams on the wire path; zero on the local path
	source verbs.GID // source address of datagrams on the local path
}

// overWire reports whether datagrams use the wire path.
func (d *destination) overWire() bool { return d.to.Remote.IsValid() }

// ah implements verbs.AH.
type ah struct {
	destination
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
	to, err := p.engine.host.resolve(attr)
	if err != nil {
		return nil, operr.Wrap("create AH", err)
	}
	p.refs.Add(1)
	return &ah{destination: to, pd: p, attr: *attr}, nil
}

// Attr implements verbs.AH.
func (a *ah) Attr() verbs.AHAttr { return a.attr }

// Close implements verbs.AH.
func (a *ah) Close() error {
	if !a.closed.Swap(true) {
		a.pd.refs.Add(-1)
	}
	return nil
}
