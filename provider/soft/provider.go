//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Provider is one software device, with what belongs to it. It implements
// cm.Provider.
type Provider struct {
	cfg Config
	dev *device
}

// Open makes a device. nil means the default configuration. It returns a
// *verbs.ParamError for values out of range, and a *verbs.FeatureError for a
// path that is not built in or a system that lacks what the device needs.
func Open(cfg *Config) (*Provider, error) {
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, verbs.Wrap("open soft device", err)
	}
	dev, err := newDevice(&c)
	if err != nil {
		return nil, verbs.Wrap("open soft device", err)
	}
	return &Provider{cfg: c, dev: dev}, nil
}

// Name is "soft".
func (p *Provider) Name() string { return "soft" }

// Devices returns the one device.
func (p *Provider) Devices() ([]verbs.Device, error) {
	if p.dev.isClosed() {
		return nil, verbs.Wrap("list soft devices", verbs.ErrClosed)
	}
	return []verbs.Device{p.dev}, nil
}

// Close ends the device; see verbs.Provider.
func (p *Provider) Close() error { return verbs.Wrap("close soft device", p.dev.close()) }
