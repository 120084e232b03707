//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/limitlog"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Provider is one software device with its connection management. It implements
// cm.Provider. Any goroutine may call its methods.
type Provider struct {
	dev *device
}

// Open opens a device. It copies cfg; nil means the default configuration. Errors:
//
//   - *verbs.ParamError: a value is out of range.
//   - *verbs.FeatureError: the system is not Linux.
//   - *fs.PathError: the file of Config.Capture exists, or can not be made.
//   - errors of the system
func Open(cfg *Config) (*Provider, error) {
	return openOn(nil, cfg)
}

func init() {
	simhost.OpenSoft = func(h simhost.Host, cfg any) (cm.Provider, error) { return openOn(h, cfg.(*Config)) }
}

// openOn opens a device on a simulated host, or on this host if the parameter h is nil.
func openOn(h simhost.Host, cfg *Config) (*Provider, error) {
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, operr.Wrap("open soft device", err)
	}
	log := limitlog.New(c.Logger)
	file, err := openCapture(h, c.Capture, log)
	if err != nil {
		return nil, operr.Wrap("open soft device", err)
	}
	dev, err := newDevice(h, &c, log, file)
	if err != nil {
		file.Close()
		return nil, operr.Wrap("open soft device", err)
	}
	return &Provider{dev: dev}, nil
}

// OpenChannel opens an event channel. Programs call cm.OpenChannel instead. Errors:
//
//   - verbs.ErrClosed: the device was closed.
//   - *verbs.ParamError: the device has 65536 event channels.
//   - errors of the system, such as a lack of descriptors
func (p *Provider) OpenChannel() (cm.TransportChannel, error) { return p.dev.cm.OpenChannel() }

// Name returns "soft".
func (p *Provider) Name() string { return "soft" }

// Devices returns the device. After Close it returns verbs.ErrClosed.
func (p *Provider) Devices() ([]verbs.Device, error) {
	if p.dev.IsClosed() {
		return nil, operr.Wrap("list soft devices", verbs.ErrClosed)
	}
	return []verbs.Device{p.dev}, nil
}

// Close closes the device. It returns verbs.ErrBusy while objects of the device are
// open; see verbs.Provider. A second call does nothing.
func (p *Provider) Close() error { return operr.Wrap("close soft device", p.dev.close()) }
