//go:build linux

package hostile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// A client on the wire path that is stopped for a short time loses nothing, and does
// not delay others.
func TestStoppedClientOnWire(t *testing.T) {
	sc := onWire(t, hostile.Spec{})
	other, _ := sc.start(hostile.RoleClient, sameUser, wired(hostile.Spec{Conns: 10, Seed: 3}))
	require.NoError(t, other.Stop())
	sc.echoes(1000)
	require.NoError(t, other.Continue())
	note, err := other.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Tally.Failed+note.Tally.Lost+note.Tally.Damaged, "%+v", note.Tally)
	sc.end()
}

// The keepalive ends the connections of killed clients, and the server then releases
// all their resources.
func TestKilledClientsOnWire(t *testing.T) {
	sc := onWire(t, hostile.Spec{Keepalive: 5 * time.Second})
	for seed := range uint64(3) {
		victim, _ := sc.start(hostile.RoleClient, sameUser, wired(hostile.Spec{Conns: 20, Seed: 10 + seed}))
		victim.Kill()
	}
	sc.eventually(func() bool { return sc.report(sc.server).Server.Opened >= 64 }, "the server has had them")
	sc.grewBy(64 * mebi)
	sc.end()
}

// When a server on the wire path is killed, its clients notice after all retries.
func TestKilledServerOnWire(t *testing.T) {
	sc := onWire(t, hostile.Spec{})
	sc.server.Kill()
	sc.eventually(func() bool { return sc.report(sc.client).Tally.Failed >= 4 }, "clients notice")
	_, err := sc.client.Finish()
	require.NoError(t, err)
}
