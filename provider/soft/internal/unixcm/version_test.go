//go:build linux

package unixcm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
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
	client, i, listener := resolvedWithoutListener(t)
	require.NoError(t, unix.Listen(listener.FD, 1))
	require.NoError(t, i.Connect(&cm.MessageParam{}))
	fd, _, err := unix.Accept(listener.FD)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unixsock.Send(fd, otherVersion, nil))
	ev := wantTransportEvent(t, client, cm.Unreachable)
	require.ErrorIs(t, ev.Err, verbs.ErrProtocol)
	require.EqualError(t, ev.Err, "the peer has version 9 of the local path, and this process version 2: both need the same version of rdmaloop")
	require.NotEqual(t, connmgr.StateREQSent, i.State())
	require.NoError(t, i.Destroy())
	client.Quiet()
}
