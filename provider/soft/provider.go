//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Provider is one software device with its connection management. It implements
// cm.Provider. Its methods may be called from any goroutine.
type Provider struct {
	cfg Config
	dev *device
}

// Open opens a device. It copies cfg; nil means the default configuration. It returns a
// *verbs.ParamError for a value out of range, and a *verbs.FeatureError on systems other
// than Linux. Other errors are those of the system.
func Open(cfg *Config) (*Provider, error) {
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, operr.Wrap("open soft device", err)
	}
	dev, err := newDevice(&c)
	if err != nil {
		return nil, operr.Wrap("open soft device", err)
	}
	return &Provider{cfg: c, dev: dev}, nil
}

// OpenChannel opens an event channel; see cm.Transport. After Close it returns
// verbs.ErrClosed. It returns a *verbs.ParamError if the device already has 65536 event
// channels. Other errors are those of the system, for example because the process has no
// free descriptor. Programs call cm.OpenChannel instead of this method.
func (p *Provider) OpenChannel() (cm.TransportChannel, error) { return p.dev.cm.OpenChannel() }

// Name returns "soft".
func (p *Provider) Name() string { return "soft" }

// Devices returns the device. After Close it returns verbs.ErrClosed.
func (p *Provider) Devices() ([]verbs.Device, error) {
	if p.dev.isClosed() {
		return nil, operr.Wrap("list soft devices", verbs.ErrClosed)
	}
	return []verbs.Device{p.dev}, nil
}

// Close closes the device. It returns verbs.ErrBusy while objects of the device are
// open; see verbs.Provider. Closing it again does nothing.
func (p *Provider) Close() error { return operr.Wrap("close soft device", p.dev.close()) }
