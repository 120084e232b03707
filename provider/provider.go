// Package provider opens a provider by name, for programs whose user chooses the
// provider. Other programs may open a provider directly, for example with soft.Open.
// This package imports all providers.
package provider

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Config has the options of Open. Nil means the zero value. After Open has returned,
// the caller may change the Config.
type Config struct {
	// Soft is the configuration of the soft device, as for soft.Open. Nil means the defaults.
	// Open("auto") opens the soft device if Soft.Path is soft.PathLocal or soft.PathWire.
	// Package rdmacore has no configuration.
	Soft *soft.Config
	// Addr is the address to connect to or to listen at. Only Open("auto") uses Addr.
	// Open("auto") opens:
	//
	//   - soft, if Addr is a loopback address
	//   - rdmacore, if there is an RDMA device of any kind and Addr is zero or a wildcard address
	//   - rdmacore, if an RDMA device has Addr, or the local address from which this
	//     host sends to Addr
	//   - soft, in all other cases
	//
	// A device has an address if one of its GIDs is that address. Only the GIDs of RoCE
	// devices are IP addresses, so for an address of another device a program calls
	// Open("rdmacore").
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
//   - *verbs.FeatureError: the name is unknown, and the error lists the known ones. Or there is
//     no RDMA device, or what rdmacore needs is missing; see rdmacore.Open.
//   - Other errors come from the provider. With "auto" an RDMA device that can not be opened is
//     an error, and no reason to open soft.
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

// Names returns the names that Open accepts. The caller owns the slice.
func Names() []string { return []string{"auto", "soft", "rdmacore"} }

func open(name string, cfg *Config) (cm.Provider, error) {
	switch name {
	case "soft":
		return openSoft(cfg)
	case "rdmacore":
		return rdmacore.Open()
	case "auto":
		return openAuto(cfg)
	}
	return nil, &verbs.FeatureError{
		Feature: fmt.Sprintf("provider %q", name),
		Reason:  fmt.Errorf("available are %s", strings.Join(Names(), ", ")),
	}
}

func openSoft(cfg *Config) (cm.Provider, error) {
	p, err := soft.Open(cfg.Soft)
	if err != nil {
		return nil, err // p is a nil pointer, but as a cm.Provider it would not equal nil.
	}
	return p, nil
}
