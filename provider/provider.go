// Package provider opens a provider by name, for programs whose user chooses the
// provider. Other programs may open a provider directly, for example with soft.Open.
// This package imports all providers of the build.
package provider

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Config has the options of Open. Nil means the zero value. After Open has returned,
// the caller may change the Config.
type Config struct {
	// Path is how the soft device reaches its peers:
	//
	//   - "local": shared memory on this host
	//   - "wire": RoCEv2
	//   - "auto" or empty: the device chooses for each peer
	//
	// If Path is "local" or "wire", Open("auto") opens the soft device.
	Path string
	// Addr is the address to connect to or to listen at. Only Open("auto") uses Addr.
	// Open("auto") opens:
	//
	//   - soft, if Addr is a loopback address
	//   - rdmacore, if there is an RDMA device and Addr is zero or a wildcard address
	//   - rdmacore, if an RDMA device has Addr, or the local address from which this
	//     host sends to Addr
	//   - soft, in all other cases
	//
	// A device has an address if one of its GIDs is that address. Only the GIDs of RoCE
	// devices are IP addresses. To use other devices, a program calls Open("rdmacore").
	Addr netip.Addr
}

// Open opens a provider by its name, "soft" or "rdmacore". The name "auto" means
// rdmacore if it has a device for Config.Addr, and otherwise soft.
//
// The caller must close the provider after all objects created from it. Any goroutine
// may call Open.
//
// Errors:
//
//   - *verbs.FeatureError: the name or path is unknown, or is not part of this build.
//     The error lists the available ones.
//   - Other errors come from the provider.
func Open(name string, cfg *Config) (cm.Provider, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	p, err := open(name, cfg)
	if err != nil {
		return nil, operr.Wrap("open provider", err)
	}
	return p, nil
}

// Names returns the names of the providers in this build. Open also accepts "auto". The
// caller owns the slice.
func Names() []string {
	names := []string{"soft"}
	if hasRDMACore {
		names = append(names, "rdmacore")
	}
	return names
}

func open(name string, cfg *Config) (cm.Provider, error) {
	path, err := parsePath(cfg.Path)
	if err != nil {
		return nil, err
	}
	switch name {
	case "soft":
		return openSoft(cfg, path)
	case "rdmacore":
		return openRDMACore(cfg)
	case "auto":
		return openAuto(cfg, path)
	}
	return nil, unknown("provider", name, append([]string{"auto"}, Names()...))
}

func openSoft(cfg *Config, path soft.Path) (cm.Provider, error) {
	p, err := soft.Open(&soft.Config{Path: path})
	if err != nil {
		return nil, err // p is a nil pointer, but as a cm.Provider it would not equal nil.
	}
	return p, nil
}

func parsePath(name string) (soft.Path, error) {
	switch name {
	case "", "auto":
		return soft.PathAuto, nil
	case "local":
		return soft.PathLocal, nil
	case "wire":
		return soft.PathWire, nil
	}
	return 0, unknown("path", name, []string{"auto", "local", "wire"})
}

func unknown(what, name string, have []string) error {
	return &verbs.FeatureError{
		Feature: fmt.Sprintf("%s %q", what, name),
		Reason:  fmt.Errorf("available are %s", strings.Join(have, ", ")),
	}
}
