//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Limits for access errors. They follow from the constants of access.ErrorLimit.
const (
	// number of access errors after which the server refuses connections
	guesses = 9
	maxWait = 10 * time.Minute // longest time for which the server refuses connections
)

// guess acts as a client that guesses remote keys. Its WRITE fails with a remote access
// error, which ends the connection.
func guess(t *testing.T, client *party, active *cm.ID) {
	t.Helper()
	_, err := active.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.SendInline | verbs.SendSignaled,
		Inline: []byte("guess"), RemoteAddr: 1 << 40, RKey: 12345}})
	require.NoError(t, err)
	require.Equal(t, verbs.StatusRemAccessErr, completions(t, client.CQ, 1)[0].Status)
}

// After too many wrong keys, the server refuses local connections of the client's
// process. After maxWait it accepts them again.
func TestGuessingKeysOnTheLocalPath(t *testing.T) {
	client, server := newParty(t), newParty(t)
	now := time.Unix(1_000_000, 0)
	server.p.dev.Access.Clock = func() time.Time { return now }
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	for range guesses {
		active, passive := connectTo(client, server, l)
		guess(t, client, active)
		client.End(active)
		server.End(passive)
	}
	refused := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	cmside.AwaitReadable(t, server.Channel.FD())
	server.Quiet()
	client.WantRejected(refused, cm.RejectNoResources, false, nil)
	require.EqualValues(t, 1, server.p.dev.local.Load(counters.AccessRefused))

	now = now.Add(maxWait)
	connectTo(client, server, l)
}

// After too many wrong keys on the wire path, the server refuses connections of the
// client's host until maxWait has passed.
func TestGuessingKeysOnTheWire(t *testing.T) {
	port := freeport.UDP(t)
	client := openParty(t, &Config{Path: PathWire, WirePort: port})
	server := openParty(t, &Config{Path: PathWire, WirePort: port})
	now := time.Unix(1_000_000, 0)
	server.p.dev.Access.Clock = func() time.Time { return now }
	l := server.Listen(cm.TCP, "127.9.1.1:0", 0)
	connect := func() (active, passive *cm.ID) {
		active = client.connectFrom("127.9.1.2", l)
		passive, _ = server.Request(l)
		server.CreateQP(passive)
		require.NoError(t, passive.Accept(nil))
		client.Want(cm.Established, active)
		server.Want(cm.Established, passive)
		return active, passive
	}
	for range guesses {
		active, passive := connect()
		guess(t, client, active)
		cmside.Disconnect(client.Side, active, server.Side, passive)
	}
	refused := client.connectFrom("127.9.1.2", l)
	cmside.AwaitReadable(t, server.Channel.FD())
	server.Quiet()
	require.EqualValues(t, cm.RejectNoResources, client.Want(cm.Rejected, refused).Status)
	require.EqualValues(t, 1, server.p.dev.local.Load(counters.AccessRefused))

	now = now.Add(maxWait)
	active, passive := connect()
	cmside.Disconnect(client.Side, active, server.Side, passive)
}
