package provider_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestOpen(t *testing.T) {
	for _, test := range []struct{ name, path string }{
		{"soft", ""}, {"soft", "auto"}, {"soft", "local"}, {"auto", ""}, {"auto", "local"},
	} {
		t.Run(test.name+" "+test.path, func(t *testing.T) {
			p, err := provider.Open(test.name, &provider.Config{
				Path: test.path,
				// For this address Open("auto") always opens soft.
				Addr: netip.MustParseAddr("127.0.0.1"),
			})
			require.NoError(t, err)
			require.Equal(t, "soft", p.Name())
			devices, err := p.Devices()
			require.NoError(t, err)
			require.Len(t, devices, 1)
			require.NoError(t, p.Close())
		})
	}
}

func TestOpenWithoutConfig(t *testing.T) {
	p, err := provider.Open("auto", nil)
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

// TestOpenRefuses checks that the error for an unknown name or path lists the available
// ones.
func TestOpenRefuses(t *testing.T) {
	for _, test := range []struct{ name, path, want string }{
		{"verbs5", "", "available are auto, soft"},
		{"", "", `provider ""`},
		{"soft", "scenic", "available are auto, local, wire"},
	} {
		t.Run(test.name+" "+test.path, func(t *testing.T) {
			p, err := provider.Open(test.name, &provider.Config{Path: test.path})
			require.Nil(t, p)
			require.ErrorIs(t, err, verbs.ErrNotSupported)
			require.ErrorContains(t, err, test.want)
			var op *verbs.OpError
			require.ErrorAs(t, err, &op)
		})
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
