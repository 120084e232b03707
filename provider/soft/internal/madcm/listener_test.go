//go:build linux

package madcm

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// A fixedHost is a simulated host with one address.
type fixedHost struct {
	simhost.Host
	addr netip.Addr
}

// Name has the process ID, which keeps two runs of the test apart.
func (h fixedHost) Name() string        { return fmt.Sprintf("%d-fixed", os.Getpid()) }
func (h fixedHost) Addrs() []netip.Addr { return []netip.Addr{h.addr} }
func (h fixedHost) MTU() int            { return 1500 }
func (fixedHost) Opened(int)            {}
func (h fixedHost) Random() uint64      { return 1 }

// A listener on a wildcard of a simulated host listens at the addresses of that host, and
// does not watch for changes.
func TestListenOnSimulatedHost(t *testing.T) {
	addr := netip.MustParseAddr("127.9.4.1")
	s := openParty(t, &Config{Host: hostport.New(fixedHost{addr: addr}), Port: freeport.UDP(t)})
	l := s.Listen(cm.TCP, "0.0.0.0:7471", 0)
	require.Equal(t, []cm.ServedAddr{{Path: connmgr.WirePath, Addr: netip.AddrPortFrom(addr, 7471)}}, l.Serves())
	for _, open := range s.mux.listeners {
		require.Nil(t, open[0].watch)
	}
}
