package cm_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

// TestServes checks that ID.Serves returns the bound address if the transport returns
// nil.
func TestServes(t *testing.T) {
	for state := cm.StateIdle; state < cm.StateClosed; state++ {
		id := reach(t, cm.TCP, state).id
		if state != cm.StateListening {
			require.Nil(t, id.Serves(), "%v", state)
			continue
		}
		require.Equal(t, []cm.ServedAddr{{Addr: id.LocalAddr()}}, id.Serves())
		require.NoError(t, id.Close())
		require.Nil(t, id.Serves())
	}
}

// TestServesByTransport checks that ID.Serves returns the transport's addresses.
func TestServesByTransport(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateListening)
	p.fake.serves = []cm.ServedAddr{{Path: "wire", Addr: netip.MustParseAddrPort("10.0.0.1:7")}}
	require.Equal(t, p.fake.serves, p.id.Serves())
}
