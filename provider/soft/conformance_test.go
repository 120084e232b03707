//go:build linux

package soft_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs/verbstest"
)

// TestConformance puts the local path through the suite: with one shard, which
// both ends of a connection share, and with two, one for each end; the second
// time with rings so small that every large message wraps around them.
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
			verbstest.Run(t, open, verbstest.Options{Addr: netip.MustParseAddr("127.0.0.1")})
		})
	}
}
