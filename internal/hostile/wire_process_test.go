//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// TestStoppedClientOnWire checks that a stopped client loses no message and does not
// delay other clients.
func TestStoppedClientOnWire(t *testing.T) {
	f := newWireFixture(t, hostile.Spec{})
	other, _ := f.start(hostile.RoleClient, sameUser, withWirePath(hostile.Spec{Conns: 10, Seed: 3}))
	require.NoError(t, other.Stop())
	f.waitEchoes(1000)
	require.NoError(t, other.Continue())
	note, err := other.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Tally.Failed+note.Tally.Lost+note.Tally.Damaged, "%+v", note.Tally)
	f.finish()
}

// TestKilledClientsOnWire checks that the server notices killed clients by keepalive and
// releases their resources.
func TestKilledClientsOnWire(t *testing.T) {
	f := newWireFixture(t, silent(hostile.Spec{}))
	for seed := range uint64(3) {
		victim, _ := f.start(hostile.RoleClient, sameUser, going(withWirePath(hostile.Spec{Conns: 20, Seed: 10 + seed})))
		victim.Kill()
	}
	f.eventually(func() bool { return f.report(f.server).Server.Opened >= 64 }, "the server did not see the killed clients")
	f.requireGrowthBelow(64 * mebi)
	f.finish()
}

// TestKilledServerOnWire checks that a client's connections fail after the server was
// killed.
func TestKilledServerOnWire(t *testing.T) {
	f := newWireFixture(t, hostile.Spec{})
	client, _ := f.start(hostile.RoleClient, sameUser, silent(going(withWirePath(hostile.Spec{Conns: 4, Seed: 2}))))
	f.server.Kill()
	f.eventually(func() bool { return f.report(client).Tally.Failed >= 4 }, "the client does not notice")
	_, err := client.Finish()
	require.NoError(t, err)
}
