//go:build linux

package soft_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs/verbstest"
)

// TestConformanceWire puts the wire path through the suite, on a UDP port that
// nobody else has.
func TestConformanceWire(t *testing.T) {
	for vectors := 1; vectors <= 2; vectors++ {
		t.Run(fmt.Sprintf("%d vectors", vectors), func(t *testing.T) {
			open := func(t *testing.T) cm.Provider {
				provider, err := soft.Open(&soft.Config{Vectors: vectors, Path: soft.PathWire, WirePort: freeUDPPort(t)})
				require.NoError(t, err)
				return provider
			}
			verbstest.Run(t, open, verbstest.Options{Addr: netip.MustParseAddr("127.0.0.1")})
		})
	}
}

// freeUDPPort is one that nobody has at the moment, on any address.
func freeUDPPort(t *testing.T) uint16 {
	t.Helper()
	c, err := net.ListenUDP("udp", nil)
	require.NoError(t, err)
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

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
			verbstest.Run(t, open, verbstest.Options{Addr: netip.MustParseAddr("127.0.0.1"), Credentials: true})
		})
	}
}
