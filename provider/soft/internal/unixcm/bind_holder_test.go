//go:build linux

package unixcm

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
)

func requireHolder(t *testing.T, err error, want cm.HolderError) {
	t.Helper()
	var holder *cm.HolderError
	require.ErrorAs(t, err, &holder)
	require.ErrorIs(t, err, want.Err)
	require.Equal(t, want, *holder)
}

// If another process has the address, the error of Bind names the user of this process.
func TestBindTellsHolder(t *testing.T) {
	peerproc.NeedsRoot(t)
	const name = "@rdmaloop/1/tcp/127.0.0.1/7472"
	for role, other := range map[string]string{"squat-accepting": "127.0.0.1", "squat-bound": "127.0.0.1", "squat-full": "0.0.0.0"} {
		t.Run(role, func(t *testing.T) {
			line, kill := peerproc.Start(t, role, name)
			defer kill()
			require.Equal(t, "squatting", line())
			want := cm.HolderError{Err: cm.ErrAddrInUse, Name: name, UID: peerproc.User, Known: true}
			if other == "0.0.0.0" {
				want.Err = cm.ErrAddrNotAvailable
			}
			s := newParty(t)
			id := s.ID(cm.TCP)
			requireHolder(t, id.Bind(netip.MustParseAddrPort(other+":7472")), want)
		})
	}
}

// If another process listens on a shared port, the error of Listen names the user of this
// process.
func TestListenTellsHolder(t *testing.T) {
	peerproc.NeedsRoot(t)
	const name = "@rdmaloop/1/tcp/127.0.0.1/7472"
	s := newParty(t)
	id := s.ID(cm.TCP)
	require.NoError(t, id.SetReuseAddr(true))
	require.NoError(t, id.Bind(netip.MustParseAddrPort("127.0.0.1:7472")))
	line, kill := peerproc.Start(t, "squat-accepting", name)
	defer kill()
	require.Equal(t, "squatting", line())
	requireHolder(t, id.Listen(0), cm.HolderError{Err: cm.ErrAddrInUse, Name: name, UID: peerproc.User, Known: true})
}

// A wildcard is reserved with a second socket, the marker, which is a datagram socket.
// The error of Bind names the user of the marker.
func TestBindTellsHolderOfMarker(t *testing.T) {
	const name = "@rdmaloop/1/tcp/*4/7472"
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
	id := newParty(t).ID(cm.TCP)
	requireHolder(t, id.Bind(netip.MustParseAddrPort("0.0.0.0:7472")),
		cm.HolderError{Err: cm.ErrAddrNotAvailable, Name: name, UID: uint32(os.Geteuid()), Known: true})
}
