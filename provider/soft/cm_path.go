//go:build linux

package soft

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// gates are those of one listener.
type listeners []listener

func (ls listeners) setAccepting(yes bool) {
	for _, g := range ls {
		g.setAccepting(yes)
	}
}

func (ls listeners) move(to *channel) error {
	for _, g := range ls {
		if err := g.move(to); err != nil {
			return err
		}
	}
	return nil
}

// serves returns the served addresses of all gates, those of the local path first.
func (ls listeners) serves() (served []cm.ServedAddr) {
	for _, g := range slices.Backward(ls) {
		served = append(served, g.serves()...)
	}
	return served
}

func (ls listeners) close() {
	for _, g := range ls {
		g.close()
	}
}

// openListeners starts taking requests on the paths that the device may use. It opens the
// local gate last, because a socket that listens can not stop when another gate
// fails.
func (i *id) openListeners() error {
	path := i.ch.Load().dev.cfg.Path
	if path == PathWire || path == PathAuto && !i.port.addr.addr.IsLoopback() {
		i.listeners = append(i.listeners, openMADListener(i))
	}
	err := i.checkServed()
	if err == nil && path != PathWire {
		var g *unixListener
		if g, err = openUnixListener(i, i.port.fd); err == nil {
			i.listeners = append(i.listeners, g)
		}
	}
	if err != nil {
		i.listeners.close()
		i.listeners = nil
	}
	return err
}

// checkServed returns an error if the open gates serve too few addresses. With
// Config.ListenOnAll, every address has to be served. With PathWire, which has no
// other path, at least one has to be.
func (i *id) checkServed() error {
	cfg := &i.ch.Load().dev.cfg
	var missing error
	served := 0
	for _, s := range i.listeners.serves() {
		if s.Err == nil {
			served++
		} else if missing == nil {
			missing = fmt.Errorf("%s path at %v: %w", s.Path, s.Addr, s.Err)
		}
	}
	if cfg.ListenOnAll || cfg.Path == PathWire && served == 0 {
		return missing
	}
	return nil
}

// Serves implements cm.ServesReader.
func (i *id) Serves() []cm.ServedAddr {
	ch := i.lock()
	defer ch.unlock()
	return i.listeners.serves()
}

// findPath looks whether there is a path from an address of this host to another,
// and opens the UDP port when that is to be the wire for sure.
func (i *id) findPath(ch *channel, from, to netip.Addr) error {
	path := ch.dev.cfg.Path
	if path != PathWire {
		if to == from {
			return nil
		}
		if own, err := onThisHost(to); own || err != nil {
			return err
		}
	}
	if path == PathLocal {
		return &verbs.FeatureError{Feature: "wire path", Reason: cm.ErrNoRoute}
	}
	port, err := ch.dev.mux.open(withoutZone(from), ch)
	if err != nil {
		return err
	}
	i.madPort = port
	return nil
}

// dial sends a request by the path that leads to the listener.
func (i *id) dial(m message) error {
	if i.madPort != nil {
		return dialMAD(i, m)
	}
	return dialUnix(i, m)
}
