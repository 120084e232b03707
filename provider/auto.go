package provider

import (
	"errors"
	"net"
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// openAuto opens rdmacore if one of its devices can reach cfg.Addr, else soft.
func openAuto(cfg *Config) (cm.Provider, error) {
	if cfg.Soft != nil && cfg.Soft.Path != soft.PathAuto {
		return openSoft(cfg)
	}
	p, err := rdmacore.Open()
	if errors.Is(err, verbs.ErrNotSupported) {
		return openSoft(cfg)
	}
	if err != nil {
		return nil, err
	}
	fits, err := leadsTo(p, cfg.Addr)
	if fits {
		return p, nil
	}
	if err = errors.Join(err, p.Close()); err != nil {
		return nil, err
	}
	return openSoft(cfg)
}

// leadsTo reports whether a device of p can reach addr. See Config.Addr for the rules.
func leadsTo(p verbs.Provider, addr netip.Addr) (bool, error) {
	switch {
	case !addr.IsValid() || addr.IsUnspecified():
		return true, nil
	// Open("auto") opens soft for a loopback address, even if an RDMA device has the
	// address too.
	case addr.Unmap().IsLoopback():
		return false, nil
	}
	return owns(p, addr, sourceFor(addr))
}

// sourceFor returns the local address from which this host sends to addr. If there is no
// route, it returns addr.
func sourceFor(addr netip.Addr) netip.Addr {
	// Connecting a datagram socket chooses a source address, and sends nothing. The port
	// 1 is arbitrary.
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 1)))
	if err != nil {
		return addr
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
}

// owns reports whether a device of p has one of the addresses as a GID.
func owns(p verbs.Provider, addrs ...netip.Addr) (bool, error) {
	devices, err := p.Devices()
	if err != nil {
		return false, err
	}
	for _, dev := range devices {
		for num := range dev.Attr().NumPorts {
			port, err := dev.Port(uint8(num + 1))
			if err != nil {
				return false, err
			}
			for _, addr := range addrs {
				if slices.Contains(port.GIDs, verbs.GIDFromAddr(addr)) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
