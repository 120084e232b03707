//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// The server releases all resources of clients that are killed with messages in
// flight.
func TestKilledClients(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	for seed := range uint64(5) {
		victim, _ := sc.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 20, Seed: 10 + seed})
		victim.Kill()
	}
	sc.grewBy(64 * mebi)
	sc.end()
}

// A client that is stopped with messages in flight does not delay other clients, and
// loses nothing when it continues.
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

// The server releases all resources of a client that is killed while it is stopped.
func TestStoppedAndKilledClient(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	other, _ := sc.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 20, Seed: 3})
	require.NoError(t, other.Stop())
	sc.echoes(500)
	other.Kill()
	sc.end()
}

// When a server is killed, the connections of its clients end at once.
func TestKilledServer(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	sc.server.Kill()
	sc.eventually(func() bool { return sc.report(sc.client).Tally.Failed >= 4 }, "clients notice")
	_, err := sc.client.Finish()
	require.NoError(t, err)
}

// A server that is stopped for a short time loses nothing, on either path. When it
// continues, it admits the clients that have asked meanwhile.
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
			// start of an expendable client does not wait for its connections.
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
