package provider_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A fakeProvider implements only the method Devices.
type fakeProvider struct {
	verbs.Provider
	devices []verbs.Device
	err     error
}

func (p *fakeProvider) Devices() ([]verbs.Device, error) { return p.devices, p.err }

type fakeDevice struct {
	verbs.Device
	ports [][]string
	err   error
}

func (d *fakeDevice) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{NumPorts: len(d.ports)} }

func (d *fakeDevice) Port(num uint8) (attr verbs.PortAttr, err error) {
	// The zero GID marks an unused entry, which must not match.
	attr.GIDs = []verbs.GID{{}}
	for _, addr := range d.ports[num-1] {
		attr.GIDs = append(attr.GIDs, verbs.GIDFromAddr(netip.MustParseAddr(addr)))
	}
	return attr, d.err
}

// TestLeadsTo checks for which addresses leadsTo finds a device. No host has the
// addresses for documentation (RFC 5737, RFC 3849).
func TestLeadsTo(t *testing.T) {
	p := &fakeProvider{devices: []verbs.Device{
		&fakeDevice{},
		&fakeDevice{ports: [][]string{{"127.0.0.1", "fe80::1", "192.0.2.1"}, {"2001:db8::2"}}},
	}}
	for addr, want := range map[string]bool{
		"192.0.2.1": true, "::ffff:192.0.2.1": true, "2001:db8::2": true, "fe80::1": true, "fe80::1%lo": true,
		"0.0.0.0": true, "::": true,
		"192.0.2.2": false, "2001:db8::3": false, "fe80::2%lo": false,
		"127.0.0.1": false, "127.0.0.2": false, "::ffff:127.0.0.1": false, "::1": false,
	} {
		got, err := provider.LeadsTo(p, netip.MustParseAddr(addr))
		require.NoError(t, err)
		require.Equal(t, want, got, addr)
	}
	got, err := provider.LeadsTo(p, netip.Addr{})
	require.NoError(t, err)
	require.True(t, got, "no address means any device")
}

// TestLeadsToThePeer checks that leadsTo finds the device from which this host sends to
// a peer.
func TestLeadsToThePeer(t *testing.T) {
	peer := netip.MustParseAddr("192.0.2.1")
	source := provider.SourceFor(peer)
	p := &fakeProvider{devices: []verbs.Device{&fakeDevice{ports: [][]string{{source.String()}}}}}
	got, err := provider.LeadsTo(p, peer)
	require.NoError(t, err)
	require.True(t, got)
}

func TestSourceFor(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "127.1.2.3"} {
		source := provider.SourceFor(netip.MustParseAddr(addr))
		require.True(t, source.IsLoopback(), "%v for %v", source, addr)
	}
	nowhere := netip.MustParseAddr("fe80::2%no-such-link")
	require.Equal(t, nowhere, provider.SourceFor(nowhere))
}

func TestLeadsToReportsFailures(t *testing.T) {
	broken := errors.New("broken")
	addr := netip.MustParseAddr("192.0.2.1")
	for _, p := range []*fakeProvider{
		{err: broken},
		{devices: []verbs.Device{&fakeDevice{ports: [][]string{{}}, err: broken}}},
	} {
		got, err := provider.LeadsTo(p, addr)
		require.False(t, got)
		require.ErrorIs(t, err, broken)
	}
}
