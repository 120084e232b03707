// Package provider opens a provider by its name, for programs whose user chooses the
// provider. A program that always uses the same provider may open it directly, for
// example with soft.Open. The packages that this package uses never choose a provider.
// There is no registry: this package imports all providers of the build.
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

// A Config has the parameters of Open. A nil Config means the zero value. Open does not
// keep the Config.
type Config struct {
	// Path is the path that the soft device uses to its peers: "local" for shared memory
	// on this host, or "wire" for RoCEv2. With "auto" or an empty string, the device
	// chooses a path for each peer. With "local" or "wire", Open("auto") opens the soft
	// device.
	Path string
	// Vectors is the number of completion vectors of a soft device. The best number is
	// one for each loop. Zero means GOMAXPROCS. Devices of provider rdmacore have a fixed
	// number.
	Vectors int
	// Addr is the address on which the program will listen or to which it will connect.
	// Only Open("auto") uses it.
	//
	// Open("auto") opens rdmacore if a GID of one of its devices is equal to Addr, or to
	// the local address from which this host sends to Addr. Loopback addresses are an
	// exception: for these it always opens soft. If Addr is the zero value or a wildcard
	// address, Open("auto") opens rdmacore if rdmacore has any device.
	//
	// The GIDs of RoCE devices are IP addresses; those of other devices are not, so
	// Open("auto") does not find these devices by an address. For such a device the user
	// opens "rdmacore" by name.
	Addr netip.Addr
}

// Open opens a provider: "soft", "rdmacore", or "auto". With "auto" it opens rdmacore if
// that has a device for Config.Addr, and otherwise soft. The caller owns the provider,
// and closes it last, after all objects that were created from it are closed. If the
// name or the path is unknown, or is not part of this build, the error is a
// *verbs.FeatureError that lists the available names or paths. Other errors come from
// the provider. Any goroutine may call Open.
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

// Names returns the names of the providers in this build. Open accepts these names, and
// "auto". The caller owns the slice.
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
	p, err := soft.Open(&soft.Config{Vectors: cfg.Vectors, Path: path})
	if err != nil {
		return nil, err // A nil pointer in an interface would not be equal to nil.
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
