// Package provider opens a provider by name, for programs that let the user
// choose. A program that knows what it wants may call provider/soft directly;
// the library below never chooses. There is no registry: what is compiled in is
// what this package imports.
package provider

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Config is what can be said about a provider before it is opened. nil means
// the zero value. It is not kept.
type Config struct {
	// Path is how the soft device reaches a peer: "local" through shared memory
	// on this host, "wire" over RoCEv2, "auto" or empty by what fits the peer.
	// Naming one of the two rules out every other provider.
	Path string
	// Vectors is the number of completion vectors of a soft device: one for each
	// loop is right. Zero means GOMAXPROCS. Real devices have what they have.
	Vectors int
	// Addr is the address that the program is going to listen on or to connect
	// to; "auto" chooses by it. It takes real devices if one of them has, among
	// the GIDs of its ports, Addr or the local address that leads there. Loopback
	// addresses belong to no device. GIDs are IP addresses on RoCE only; devices
	// of other kinds are opened by name. Zero, and the wildcards, mean any: real
	// devices where there are some.
	Addr netip.Addr
}

// Open opens a provider: "soft", "rdmacore", or "auto" for real devices where
// there are some for Config.Addr, and else the soft one. The caller closes it after
// all that was made from it. A name or path that is unknown, or not part of this
// build, is a *verbs.FeatureError that says which there are; other errors are the
// provider's.
func Open(name string, cfg *Config) (cm.Provider, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	p, err := open(name, cfg)
	if err != nil {
		return nil, verbs.Wrap("open provider", err)
	}
	return p, nil
}

// Names lists the providers of this build, which are what Open takes beside
// "auto". The slice is the caller's.
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
		Reason:  fmt.Errorf("there are %s", strings.Join(have, ", ")),
	}
}
