package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A limitedProvider wraps a provider. Its functions attr() and caps() change the limits
// and abilities that devices report.
type limitedProvider struct {
	cm.Provider
	attr func(*verbs.DeviceAttr)
	caps func(*verbs.Caps)
}

type limitedDevice struct {
	verbs.Device
	provider limitedProvider
}

func (p limitedProvider) Devices() ([]verbs.Device, error) {
	devices, err := p.Provider.Devices()
	for i := range devices {
		devices[i] = limitedDevice{devices[i], p}
	}
	return devices, err
}

// SimulatedHost makes a limitedDevice work in a reactortest.World.
func (d limitedDevice) SimulatedHost() simhost.Host { return simhost.OfDevice(d.Device) }

func (d limitedDevice) Attr() verbs.DeviceAttr {
	attr := d.Device.Attr()
	if d.provider.attr != nil {
		d.provider.attr(&attr)
	}
	return attr
}

func (d limitedDevice) Caps() verbs.Caps {
	caps := d.Device.Caps()
	if d.provider.caps != nil {
		d.provider.caps(&caps)
	}
	return caps
}

// TestConfigExceedsDevice checks that New refuses a Config beyond the device's limits.
func TestConfigExceedsDevice(t *testing.T) {
	soft := openSoft(t)
	noSRQ := func(c *verbs.Caps) { c.SRQ = false }
	for _, c := range []struct {
		name, field string
		limited     limitedProvider
		cfg         reactor.Config
		limit       int64
	}{
		{"vectors", "NumLoops", limitedProvider{attr: func(a *verbs.DeviceAttr) { a.NumCompVectors = 2 }}, reactor.Config{NumLoops: 3}, 2},
		{"queues", "MaxInFlight", limitedProvider{attr: func(a *verbs.DeviceAttr) { a.MaxQPWR = 32 }}, reactor.Config{}, 31},
		{"completions", "MaxInFlight", limitedProvider{attr: func(a *verbs.DeviceAttr) { a.MaxCQE = 65 }}, reactor.Config{}, 32},
		{"completions beside a shared queue", "MaxInFlight", limitedProvider{attr: func(a *verbs.DeviceAttr) { a.MaxCQE = 65 }}, reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: 10}}, 54},
		{"shared queue", "SharedRecvBuffers", limitedProvider{attr: func(a *verbs.DeviceAttr) { a.MaxSRQWR = 8 }}, reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: 9}}, 8},
		{"minimum of a shared queue", "MinRecvBuffers", limitedProvider{attr: func(a *verbs.DeviceAttr) { a.MaxSRQWR = 128 }}, reactor.Config{Memory: reactor.Memory{MinRecvBuffers: 65}}, 64},
		{"minimum of own buffers", "MinRecvBuffers", limitedProvider{caps: noSRQ, attr: func(a *verbs.DeviceAttr) { a.MaxQPWR = 128 }}, reactor.Config{Memory: reactor.Memory{MinRecvBuffers: 65}}, 64},
	} {
		c.limited.Provider = soft
		_, err := reactor.New(c.limited, &hooks{}, &c.cfg)
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param, c.name)
		require.Equal(t, c.field, param.Field, c.name)
		require.Equal(t, c.limit, param.Limit, c.name)
	}
}

// TestLoopsShareVectors checks that loops may share a completion vector unless
// verbs.Caps.ProgressManual is set.
func TestLoopsShareVectors(t *testing.T) {
	auto := limitedProvider{Provider: openSoft(t), caps: func(c *verbs.Caps) { c.ProgressManual = false }}
	engine, err := reactor.New(auto, &hooks{}, &reactor.Config{NumLoops: 3})
	require.NoError(t, err)
	shutdown(t, engine)
}
