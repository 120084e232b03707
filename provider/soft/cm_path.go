//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// gates are those of one listener.
type gates []gate

func (gs gates) admit(yes bool) {
	for _, g := range gs {
		g.admit(yes)
	}
}

func (gs gates) move(to *channel) error {
	for _, g := range gs {
		if err := g.move(to); err != nil {
			return err
		}
	}
	return nil
}

func (gs gates) close() {
	for _, g := range gs {
		g.close()
	}
}

// openGates lets requests in on the paths that the device may use.
func (i *id) openGates() error {
	path := i.ch.Load().dev.cfg.Path
	if path != PathWire {
		g, err := openLocalGate(i, i.port.fd)
		if err != nil {
			return err
		}
		i.gates = append(i.gates, g)
	}
	if path == PathLocal || path == PathAuto && i.port.spot.addr.IsLoopback() {
		return nil
	}
	g, err := openWireGate(i)
	switch {
	case err == nil:
		i.gates = append(i.gates, g)
	case path == PathWire:
		return err
	}
	return nil
}

// findPath looks whether there is a path from an address of this host to another,
// and opens the UDP port when that is to be the wire for sure.
func (i *id) findPath(ch *channel, from, to netip.Addr) error {
	path := ch.dev.cfg.Path
	if path != PathWire && (to == from || onThisHost(to)) {
		return nil
	}
	if path == PathLocal {
		return &verbs.FeatureError{Feature: "wire path", Reason: cm.ErrNoRoute}
	}
	port, err := ch.dev.mads.open(plain(from), ch)
	if err != nil {
		return err
	}
	i.wire = port
	return nil
}

// dial sends a request by the path that leads to the listener.
func (i *id) dial(m message) error {
	if i.wire != nil {
		return dialWire(i, m)
	}
	return dialLocal(i, m)
}

// servedOnWire reports whether another process on this host has the UDP port of
// an address, and so may listen on the wire. On the same address as ours there is
// none: one process has it.
func (d *device) servedOnWire(from, to netip.Addr) bool {
	return d.cfg.Path == PathAuto && plain(from) != plain(to) && d.udp.taken(plain(to))
}
