//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// Clients that are killed with messages on their way leave nothing behind.
func TestKilledClients(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	for seed := range uint64(5) {
		victim, _ := sc.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 20, Seed: 10 + seed})
		victim.Kill()
	}
	sc.grewBy(64 * mebi)
	sc.end()
}

// A client that stands still with messages on their way holds up nobody, and goes on
// where it was.
func TestStoppedClient(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	other, _ := sc.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 20, Seed: 3})
	require.NoError(t, other.Stop())
	sc.echoes(2000)
	require.NoError(t, other.Continue())
	note, err := other.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Tally.Failed+note.Tally.Lost+note.Tally.Damaged, "%+v", note.Tally)
	sc.end()
}

// One that is killed while it stands still leaves nothing behind.
func TestStoppedAndKilledClient(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	other, _ := sc.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 20, Seed: 3})
	require.NoError(t, other.Stop())
	sc.echoes(500)
	other.Kill()
	sc.end()
}

// A server that is killed ends the connections of its clients at once.
func TestKilledServer(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	sc.server.Kill()
	sc.eventually(func() bool { return sc.report(sc.client).Tally.Failed >= 4 }, "clients notice")
	_, err := sc.client.Finish()
	require.NoError(t, err)
}

// A server that stands still for a moment loses nothing, on either path, and then
// admits those who came meanwhile.
func TestStoppedServer(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(*testing.T, hostile.Spec) *scene
		spec  func(hostile.Spec) hostile.Spec
	}{
		{"local", begin, func(s hostile.Spec) hostile.Spec { return s }},
		{"wire", onWire, wired},
	} {
		t.Run(c.name, func(t *testing.T) {
			sc := c.begin(t, hostile.Spec{})
			require.NoError(t, sc.server.Stop())
			// It does not wait for its connections, which can not open yet.
			late, _ := sc.start(hostile.RoleClient, sameUser, c.spec(hostile.Spec{Conns: 4, Expendable: true, Messages: 20}))
			require.Zero(t, sc.report(late).Tally.Opened)
			require.NoError(t, sc.server.Continue())
			sc.eventually(func() bool { return sc.report(late).Tally.Opened > 8 }, "the late are admitted")
			_, err := late.Finish()
			require.NoError(t, err)
			sc.end()
		})
	}
}
