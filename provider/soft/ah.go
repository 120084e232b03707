//go:build linux

package soft

import (
	"errors"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// ah implements verbs.AH.
type ah struct {
	pd     *pd
	attr   verbs.AHAttr
	to     route // on the wire; without addresses for a peer on this host
	closed atomic.Bool
}

func (p *pd) CreateAH(attr *verbs.AHAttr) (verbs.AH, error) {
	if attr == nil {
		return nil, verbs.Wrap("create AH", errNilAttr)
	}
	if p.closed.Load() {
		return nil, verbs.Wrap("create AH", verbs.ErrClosed)
	}
	if err := p.dev.checkAH(attr); err != nil {
		return nil, verbs.Wrap("create AH", err)
	}
	a := &ah{pd: p, attr: *attr}
	if err := a.findRoute(); err != nil {
		return nil, verbs.Wrap("create AH", err)
	}
	p.users.Add(1)
	return a, nil
}

// findRoute settles how the destination is reached.
func (a *ah) findRoute() (err error) {
	path, addr := a.pd.dev.cfg.Path, a.attr.DestGID.Addr()
	if path != PathWire {
		if own, err := onThisHost(addr); own || err != nil {
			return err
		}
	}
	if path == PathLocal {
		return &verbs.FeatureError{Feature: "datagrams to " + addr.String(), Reason: errNotThisHost}
	}
	a.to, err = a.pd.dev.routeOf(&a.attr)
	return err
}

// overWire reports whether datagrams to the destination go out by the wire.
func (a *ah) overWire() bool { return a.to.remote.IsValid() }

// checkAH checks what an address vector says of this side.
func (d *device) checkAH(attr *verbs.AHAttr) error {
	if attr.SourceIndex == 0 && attr.Port == 1 && attr.FlowLabel == 0 {
		return nil // the usual case, without asking for the host's addresses
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

var errNotThisHost = errors.New("not an address of this host, and the device keeps to the local path")

func (a *ah) Attr() verbs.AHAttr { return a.attr }

func (a *ah) Close() error {
	if !a.closed.Swap(true) {
		a.pd.users.Add(-1)
	}
	return nil
}
