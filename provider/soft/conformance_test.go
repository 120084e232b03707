//go:build linux

package soft_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/providertest"
	"github.com/rdmaloop/rdmaloop/provider/soft"
)

// TestConformanceWire runs the conformance suite on the wire path. Each device has a UDP
// port of its own.
func TestConformanceWire(t *testing.T) {
	for vectors := 1; vectors <= 2; vectors++ {
		t.Run(fmt.Sprintf("%d vectors", vectors), func(t *testing.T) {
			open := func(t *testing.T) cm.Provider {
				provider, err := soft.Open(&soft.Config{Vectors: vectors, Path: soft.PathWire, WirePort: freeport.UDP(t)})
				require.NoError(t, err)
				return provider
			}
			providertest.Run(t, open, providertest.Options{Addr: netip.MustParseAddr("127.0.0.1")})
		})
	}
}

// TestConformance runs the conformance suite on the local path: with both ends on one
// shard, and with two shards and small rings, so that large messages wrap.
func TestConformance(t *testing.T) {
	for _, cfg := range []soft.Config{
		{Vectors: 1},
		{Vectors: 2, RingBytes: 4096, RingSlots: 8},
	} {
		t.Run(fmt.Sprintf("%d vectors", cfg.Vectors), func(t *testing.T) {
			open := func(t *testing.T) cm.Provider {
				cfg.Path = soft.PathLocal
				provider, err := soft.Open(&cfg)
				require.NoError(t, err)
				return provider
			}
			providertest.Run(t, open, providertest.Options{Addr: netip.MustParseAddr("127.0.0.1"), Credentials: true})
		})
	}
}
