package provider_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestOpen(t *testing.T) {
	for _, name := range []string{"soft", "auto"} {
		t.Run(name, func(t *testing.T) {
			// For this address Open("auto") always opens soft.
			p, err := provider.Open(name, &provider.Config{Addr: netip.MustParseAddr("127.0.0.1")})
			require.NoError(t, err)
			require.Equal(t, "soft", p.Name())
			devices, err := p.Devices()
			require.NoError(t, err)
			require.Len(t, devices, 1)
			require.NoError(t, p.Close())
		})
	}
}

// TestOpenConfiguredSoft checks that the soft device gets its configuration. On a host with an
// RDMA device, the path makes Open("auto") choose the soft device.
func TestOpenConfiguredSoft(t *testing.T) {
	for name, cfg := range map[string]*soft.Config{"soft": {RingSlots: 3}, "auto": {Path: soft.PathLocal, RingSlots: 3}} {
		_, err := provider.Open(name, &provider.Config{Soft: cfg})
		require.ErrorContains(t, err, "rdma: open soft device: ", name)
	}
}

func TestOpenWithoutConfig(t *testing.T) {
	p, err := provider.Open("auto", nil)
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

// TestOpenRefuses checks that the error for an unknown name lists the available ones.
func TestOpenRefuses(t *testing.T) {
	for _, name := range []string{"verbs5", ""} {
		p, err := provider.Open(name, nil)
		require.Nil(t, p)
		require.ErrorIs(t, err, verbs.ErrNotSupported)
		require.ErrorContains(t, err, fmt.Sprintf("rdma: open provider: provider %q: not supported: available are auto, soft, rdmacore", name))
		var op *verbs.OpError
		require.ErrorAs(t, err, &op)
	}
}

// TestOpenRDMACore checks that Open opens rdmacore, or returns a *verbs.FeatureError.
func TestOpenRDMACore(t *testing.T) {
	p, err := provider.Open("rdmacore", nil)
	if err == nil {
		require.Equal(t, "rdmacore", p.Name())
		require.NoError(t, p.Close())
		return
	}
	require.Nil(t, p)
	require.ErrorIs(t, err, verbs.ErrNotSupported)
	require.ErrorContains(t, err, "no access to RDMA hardware")
	var op *verbs.OpError
	require.ErrorAs(t, err, &op)
}

func TestNames(t *testing.T) {
	require.Contains(t, provider.Names(), "soft")
	provider.Names()[0] = "changed"
	require.Contains(t, provider.Names(), "soft", "the caller owns the slice")
}
