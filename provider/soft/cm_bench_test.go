//go:build linux

package soft

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

// BenchmarkConnect measures making and ending a connection without queue pairs.
func BenchmarkConnect(b *testing.B) {
	b.ReportAllocs()
	p, err := Open(&Config{})
	require.NoError(b, err)
	tc, err := p.OpenChannel()
	require.NoError(b, err)
	l, err := tc.NewID(cm.TCP)
	require.NoError(b, err)
	require.NoError(b, l.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	require.NoError(b, l.Listen(8))
	var ev cm.TransportEvent
	next := func(want cm.EventType) {
		for {
			ok, err := tc.Next(&ev)
			require.NoError(b, err)
			if ok {
				require.Equal(b, want, ev.Type)
				return
			}
		}
	}
	for b.Loop() {
		active, err := tc.NewID(cm.TCP)
		require.NoError(b, err)
		require.NoError(b, active.ResolveAddr(netip.AddrPort{}, l.LocalAddr(), 0))
		next(cm.AddrResolved)
		require.NoError(b, active.Connect(&cm.MessageParam{QPNum: 5}))
		next(cm.ConnectRequest)
		passive := ev.ID
		require.NoError(b, passive.Accept(&cm.MessageParam{QPNum: 6}))
		next(cm.ConnectResponse)
		require.NoError(b, active.Establish())
		next(cm.Established)
		require.NoError(b, active.Destroy())
		next(cm.Disconnected)
		require.NoError(b, passive.Destroy())
	}
}
