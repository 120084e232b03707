//go:build linux

package soft

import (
	"errors"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// ah implements verbs.AH.
type ah struct {
	pd     *pd
	attr   verbs.AHAttr
	to     udp.Route // route of datagrams on the wire path; zero on the local path
	source verbs.GID // source address of datagrams on the local path; see findSource
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
	if err := p.dev.checkAH(attr); err != nil {
		return nil, operr.Wrap("create AH", err)
	}
	a := &ah{pd: p, attr: *attr}
	if err := a.findRoute(); err != nil {
		return nil, operr.Wrap("create AH", err)
	}
	p.refs.Add(1)
	return a, nil
}

// findRoute stores the route to the destination. Datagrams on the local path have no
// route, so findRoute stores only their source address.
func (a *ah) findRoute() (err error) {
	path, addr := a.pd.dev.cfg.Path, a.attr.DestGID.Addr()
	if path != PathWire {
		own, err := hostport.OnThisHost(addr)
		switch {
		case err != nil:
			return err
		case own:
			return a.findSource()
		}
	}
	if path == PathLocal {
		return &verbs.FeatureError{Feature: "datagrams to " + addr.String(), Reason: errNotThisHost}
	}
	a.to, err = a.pd.dev.routeOf(&a.attr)
	return err
}

// routeOf returns the route of an address vector. The route starts at the host address
// with the index attr.SourceIndex.
func (d *device) routeOf(attr *verbs.AHAttr) (udp.Route, error) {
	local, err := d.gids.at(attr.SourceIndex)
	if err != nil {
		return udp.Route{}, err
	}
	return udp.Route{
		Local: local, Remote: attr.DestGID.Addr(),
		TrafficClass: attr.TrafficClass, HopLimit: attr.HopLimit,
	}, nil
}

// findSource stores the source address of datagrams on the local path. If SourceIndex
// does not exist, findSource stores the destination address, which is on this host too.
func (a *ah) findSource() error {
	addr, err := a.pd.dev.gids.at(a.attr.SourceIndex)
	var none *verbs.ParamError
	if errors.As(err, &none) {
		a.source = a.attr.DestGID
		return nil
	}
	a.source = verbs.GIDFromAddr(addr)
	return err
}

// overWire reports whether datagrams use the wire path.
func (a *ah) overWire() bool { return a.to.Remote.IsValid() }

func (d *device) checkAH(attr *verbs.AHAttr) error {
	if attr.SourceIndex == 0 && attr.Port == 1 && attr.FlowLabel == 0 {
		// Port 1, GID index 0 and flow label 0 are the usual values, and are valid. d.Port is
		// not called for them. It is slow, because it reads the addresses of the host from the
		// kernel.
		return nil
	}
	port, err := d.Port(attr.Port)
	if err != nil {
		return err
	}
	if attr.SourceIndex < 0 || attr.SourceIndex >= len(port.GIDs) {
		return &verbs.ParamError{Field: "source GID index", Value: int64(attr.SourceIndex), Limit: int64(len(port.GIDs) - 1), Reason: "out of range"}
	}
	if attr.FlowLabel >= 1<<20 {
		return &verbs.ParamError{Field: "flow label", Value: int64(attr.FlowLabel), Limit: 1<<20 - 1}
	}
	return nil
}

var errNotThisHost = errors.New("not an address of this host, and the device has only the local path")

// Attr implements verbs.AH.
func (a *ah) Attr() verbs.AHAttr { return a.attr }

// Close implements verbs.AH.
func (a *ah) Close() error {
	if !a.closed.Swap(true) {
		a.pd.refs.Add(-1)
	}
	return nil
}
