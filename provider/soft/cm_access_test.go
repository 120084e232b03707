//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// guesses is the number of access errors after which a source has to wait; see
// access.ErrorLimit. After maxWait no source has to wait.
const (
	guesses = 9
	maxWait = 10 * time.Minute
)

// guess sends a WRITE with a key that no memory region of the peer has. This ends the
// connection.
func guess(t *testing.T, client *party, active *cm.ID) {
	t.Helper()
	_, err := active.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.SendInline | verbs.SendSignaled,
		Inline: []byte("guess"), RemoteAddr: 1 << 40, RKey: 12345}})
	require.NoError(t, err)
	require.Equal(t, verbs.StatusRemAccessErr, completions(t, client.CQ, 1)[0].Status)
}

// The server refuses connections of a local process that has guessed too many keys, and
// accepts its connections again after the wait.
func TestGuessingKeysOnTheLocalPath(t *testing.T) {
	client, server := newParty(t), newParty(t)
	now := time.Unix(1_000_000, 0)
	server.p.dev.access.Clock = func() time.Time { return now }
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
	require.EqualValues(t, 1, server.p.dev.local[counters.AccessRefused].Load())

	now = now.Add(maxWait)
	connectTo(client, server, l)
}

// The server refuses connections of a host on the wire path that has guessed too many
// keys.
func TestGuessingKeysOnTheWire(t *testing.T) {
	w := newMADSim(t)
	w.server.p.dev.access.Clock = func() time.Time { return w.clock.now }
	for range guesses {
		active, passive := w.connected()
		guess(t, w.client, active)
		w.disconnected(active, passive)
	}
	l := w.listen(cm.TCP, 0)
	// The first wait is over. One more error starts the second wait.
	w.server.p.dev.access.CountError(access.RemoteSource(clientAddr))
	refused := w.connecting(cm.TCP, l.LocalAddr(), nil)
	require.Equal(t, int(cm.RejectNoResources), w.want(w.client, cm.Rejected, refused).Status)
	w.server.Quiet()
	require.Equal(t, wire.AttrREJ, w.sent[len(w.sent)-1])
	require.EqualValues(t, 1, w.server.p.dev.local[counters.AccessRefused].Load())

	w.clock.now = w.clock.now.Add(maxWait)
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := w.request(l)
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
	w.want(w.server, cm.Established, passive)
}
