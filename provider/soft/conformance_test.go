//go:build linux

package soft_test

import (
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
	for name, one := range map[string]bool{"one shard": true, "two shards": false} {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T) cm.Provider {
				provider, err := soft.Open(&soft.Config{Path: soft.PathWire, WirePort: freeport.UDP(t)})
				require.NoError(t, err)
				return provider
			}
			providertest.Run(t, open, providertest.Options{Addr: netip.MustParseAddr("127.0.0.1"), RecvTime: true, OneVector: one})
		})
	}
}

// TestConformance runs the conformance suite on the local path: with both ends on one
// shard, and with two shards and small rings, so that large messages wrap.
func TestConformance(t *testing.T) {
	for name, cfg := range map[string]soft.Config{
		"one shard":  {},
		"two shards": {RingBytes: 4096, RingSlots: 8},
	} {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T) cm.Provider {
				cfg.Path = soft.PathLocal
				provider, err := soft.Open(&cfg)
				require.NoError(t, err)
				return provider
			}
			providertest.Run(t, open, providertest.Options{Addr: netip.MustParseAddr("127.0.0.1"), Credentials: true, OneVector: name == "one shard"})
		})
	}
}
