// Package provider opens a provider by name, for programs that let the user choose. A
// program that always uses the same provider may call provider/soft directly. The
// packages below this one never choose. There is no registry: this package imports all
// providers of the build.
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

// Config has the parameters of Open. Nil means the zero value. Open does not keep the
// Config.
type Config struct {
	// Path is the path of the soft device to its peers: "local" for shared memory on
	// this host, "wire" for RoCEv2. "auto" or an empty string chooses for each peer.
	// With "local" or "wire", Open("auto") opens the soft device.
	Path string
	// Vectors is the number of completion vectors of a soft device; one for each loop is
	// best. Zero means GOMAXPROCS. Devices of provider rdmacore have a fixed number.
	Vectors int
	// Addr is the address on which the program will listen or to which it will connect.
	// Open("auto") uses it: it opens rdmacore if one of its devices has Addr, or the
	// local address from which Addr is reached, among the GIDs of its ports. Loopback
	// addresses belong to no device of rdmacore. GIDs are IP addresses on RoCE only;
	// devices of other kinds must be opened by name. The zero value and the wildcards
	// mean rdmacore if it has any device.
	Addr netip.Addr
}

// Open opens a provider: "soft", "rdmacore", or "auto". "auto" means rdmacore if it has
// a device for Config.Addr, and else soft. The caller closes the provider after all
// objects that were created from it. A name or path that is unknown, or not part of this
// build, is a *verbs.FeatureError that lists the available ones. Other errors are those
// of the provider. Any goroutine may call.
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

// Names returns the names of the providers of this build. Open takes these and "auto".
// The caller owns the slice.
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
		return nil, err // not p: a nil *soft.Provider is not a nil interface
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
