//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// TestKilledClients checks that the server releases all resources of killed clients.
func TestKilledClients(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	for seed := range uint64(5) {
		victim, _ := f.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 20, Seed: 10 + seed})
		victim.Kill()
	}
	f.requireGrowthBelow(64 * mebi)
	f.finish()
}

// TestStoppedClient checks that a stopped client loses no message and does not delay
// other clients.
func TestStoppedClient(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	other, _ := f.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 20, Seed: 3})
	require.NoError(t, other.Stop())
	f.waitEchoes(2000)
	require.NoError(t, other.Continue())
	note, err := other.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Tally.Failed+note.Tally.Lost+note.Tally.Damaged, "%+v", note.Tally)
	f.finish()
}

// TestStoppedAndKilledClient checks that the server releases all resources of a client
// that was killed while it was stopped.
func TestStoppedAndKilledClient(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	other, _ := f.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 20, Seed: 3})
	require.NoError(t, other.Stop())
	f.waitEchoes(500)
	other.Kill()
	f.finish()
}

// TestKilledServer checks that the client's connections end at once when the server is
// killed.
func TestKilledServer(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	f.server.Kill()
	f.eventually(func() bool { return f.report(f.client).Tally.Failed >= 4 }, "the client does not notice")
	_, err := f.client.Finish()
	require.NoError(t, err)
}

// TestStoppedServer checks that no message or connection is lost while the server is
// stopped. Afterwards it accepts the clients that dialed meanwhile.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		begin func(*testing.T, hostile.Spec) *fixture
		spec  func(hostile.Spec) hostile.Spec
	}{
		{"local", newFixture, func(s hostile.Spec) hostile.Spec { return s }},
		{"wire", newWireFixture, withWirePath},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.begin(t, hostile.Spec{})
			require.NoError(t, f.server.Stop())
			// The client is expendable, so start() does not wait for its connections.
			late, _ := f.start(hostile.RoleClient, sameUser, c.spec(hostile.Spec{Conns: 4, Expendable: true, Messages: 20}))
			require.Zero(t, f.report(late).Tally.Opened)
			require.NoError(t, f.server.Continue())
			f.eventually(func() bool { return f.report(late).Tally.Opened > 8 }, "clients that connected meanwhile are not accepted")
			_, err := late.Finish()
			require.NoError(t, err)
			f.finish()
		})
	}
}
