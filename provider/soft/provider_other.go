//go:build !linux

package soft

import (
	"errors"
	"runtime"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Provider can not be made on this system. Open always returns an error.
type Provider struct{}

func unsupported() error {
	return &verbs.FeatureError{Feature: "soft device on " + runtime.GOOS, Reason: errors.New("it needs Linux")}
}

// Open returns a *verbs.FeatureError, because the device needs Linux.
func Open(*Config) (*Provider, error) { return nil, operr.Wrap("open soft device", unsupported()) }

// Name returns "soft".
func (p *Provider) Name() string { return "soft" }

// Devices returns a *verbs.FeatureError.
func (p *Provider) Devices() ([]verbs.Device, error) {
	return nil, operr.Wrap("list soft devices", unsupported())
}

// OpenChannel returns a *verbs.FeatureError.
func (p *Provider) OpenChannel() (cm.TransportChannel, error) {
	return nil, operr.Wrap("open event channel", unsupported())
}

// Close does nothing.
func (p *Provider) Close() error { return nil }
