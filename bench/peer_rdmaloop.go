package main

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Paths of rdmaloop. Soft devices use the first two, and hardware devices the third.
const (
	pathLocal  = "local"
	pathWire   = "wire"
	pathDevice = "device"
)

func rdmaloopPeer() *peer {
	return &peer{name: "rdmaloop", variants: inEachMode(pathLocal, pathWire), fits: fitsRDMA, serve: serveRDMA, connect: connectRDMA}
}

// fitsRDMA leaves out workLoops on the wire path. There each client would need its own
// address.
func fitsRDMA(c Case) bool { return c.Workload != workLoops || c.Path == pathLocal }

// rdmacorePeer returns the peer that uses an RDMA device of the kernel.
func rdmacorePeer() *peer {
	return &peer{
		name:     "rdmacore",
		missing:  missingDevice,
		variants: inEachMode(pathDevice),
		fits:     fitsRDMA,
		serve:    serveRDMA,
		connect:  connectRDMA,
	}
}

func missingDevice() error {
	_, err := deviceAddress()
	return err
}

func inEachMode(paths ...string) (variants []variant) {
	for _, path := range paths {
		for _, mode := range []string{"event", "adaptive", "busy"} {
			variants = append(variants, variant{path, mode})
		}
	}
	return variants
}

// deviceAddress returns an IP address of an RDMA device.
func deviceAddress() (addr netip.Addr, err error) {
	p, err := provider.Open("rdmacore", nil)
	if err != nil {
		return addr, err
	}
	defer p.Close()
	devices, err := p.Devices()
	if err != nil {
		return addr, err
	}
	for _, dev := range devices {
		for num := range dev.Attr().NumPorts {
			if addr := portAddress(dev, uint8(num+1)); addr.IsValid() {
				return addr, nil
			}
		}
	}
	return addr, errors.New("no port of an RDMA device is up and has an IPv4 address")
}

// portAddress returns an IPv4 address of an active port.
func portAddress(dev verbs.Device, num uint8) (none netip.Addr) {
	port, err := dev.Port(num)
	if err != nil || port.State != verbs.PortActive {
		return none
	}
	for _, gid := range port.GIDs {
		if addr := netip.AddrFrom16(gid); addr.Is4In6() {
			return addr.Unmap()
		}
	}
	return none
}

type node struct {
	provider cm.Provider
	engine   *reactor.Engine
}

func startNode(s *spec, h reactor.Handler) (*node, error) {
	p, err := openProvider(s)
	if err != nil {
		return nil, err
	}
	engine, err := reactor.New(p, h, engineConfig(s))
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	n := &node{p, engine}
	if err := engine.Start(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func openProvider(s *spec) (cm.Provider, error) {
	if s.Path == pathDevice {
		return provider.Open("rdmacore", nil)
	}
	path := soft.PathLocal
	if s.Path == pathWire {
		path = soft.PathWire
	}
	// All connections come from one address, so the limit for an address must be at least
	// their number. The constant spare allows a few more connections than requested.
	const spare = 100
	return soft.Open(&soft.Config{Path: path, MaxConnsPerAddress: s.Connections + spare, WirePort: s.WirePort})
}

// engineConfig returns the configuration for a case. The loop is pinned to a processor,
// except in the mode "event".
func engineConfig(s *spec) *reactor.Config {
	policies := map[string]reactor.IdlePolicy{
		"event": reactor.IdleEvent, "adaptive": reactor.IdleAdaptive, "busy": reactor.IdleBusy,
	}
	cfg := &reactor.Config{NumLoops: s.loops(), Idle: policies[s.Mode], MaxConns: -1}
	if cfg.Idle != reactor.IdleEvent {
		cfg.CPUs = s.CPUs
	}
	const usualMessage, usualInFlight = 4096, 63
	if s.Size > usualMessage {
		cfg.MaxMessage = s.Size
	}
	// A send occupies a place of the send queue until its completion. The answer of the
	// peer may arrive before that completion, and then the next message is sent. So the
	// queue needs more places than there are messages in flight.
	if 2*s.InFlight > usualInFlight {
		cfg.MaxInFlight = 2 * s.InFlight
	}
	return cfg
}

// listenAddress returns the address at which the server listens.
func listenAddress(s *spec) (netip.AddrPort, error) {
	switch s.Path {
	case pathDevice:
		addr, err := deviceAddress()
		return netip.AddrPortFrom(addr, 0), err
	case pathWire:
		addr, err := netip.ParseAddr(s.Listen)
		return netip.AddrPortFrom(addr, 0), err
	}
	return netip.MustParseAddrPort("127.0.0.1:0"), nil
}

// fromAddress returns the source address of the client.
func fromAddress(s *spec) (from netip.AddrPort, err error) {
	if s.Path == pathWire {
		addr, err := netip.ParseAddr(s.From)
		return netip.AddrPortFrom(addr, 0), err
	}
	return from, nil
}

// Close closes the engine with its connections, and the device.
func (n *node) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(n.engine.Shutdown(ctx), n.provider.Close())
}
