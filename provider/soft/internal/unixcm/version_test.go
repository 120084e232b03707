//go:build linux

package unixcm

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// otherVersion is a message of another version of the codec, with a layout of its own.
var otherVersion = []byte{9, 1, 2, 3}

// TestClientOfAnotherVersion checks that a client whose library has another version gets an
// answer that shows the version of this side.
func TestClientOfAnotherVersion(t *testing.T) {
	server := newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	client := dialRaw(t, l)
	client.send(otherVersion)
	server.Quiet()
	var packet [1024]byte
	n, _, err := unixsock.Receive(client.fd, packet[:], 0)
	require.NoError(t, err)
	require.Positive(t, n)
	require.EqualValues(t, codecVersion, packet[0])
	require.True(t, client.closedByPeer())
}

// TestServerOfAnotherVersion checks that a client finds out that the library of the server
// has another version, and reports both.
func TestServerOfAnotherVersion(t *testing.T) {
	client := newParty(t)
	port, accept := hostileServer(t)
	id := client.Connecting(cm.TCP, netip.AddrPortFrom(port.Addr.Addr, port.Addr.Port), nil)
	accept().send(otherVersion)
	ev := client.Want(cm.Unreachable, id)
	require.ErrorIs(t, ev.Err, verbs.ErrProtocol)
	require.EqualError(t, ev.Err, "unreachable: the peer has version 9 of the local path, and this process version 3: both need the same version of rdmaloop")
	client.Quiet()
	port.Close()
}
