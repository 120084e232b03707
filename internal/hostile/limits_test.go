//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// TestDescriptorLimit checks that a server without free descriptors refuses connections.
// When descriptors become free, it accepts connections again.
func TestDescriptorLimit(t *testing.T) {
	f := newFixture(t, hostile.Spec{Descriptors: 100})
	crowd, _ := f.start(hostile.RoleExhauster, sameUser, hostile.Spec{Seed: 1, Rounds: 200})
	note, err := crowd.Await()
	require.NoError(t, err)
	t.Logf("%+v; the server has %+v", note.Attack, f.usage())
	require.NotZero(t, note.Attack.Refused)
	f.waitEchoes(100)
	_, err = crowd.Finish()
	require.NoError(t, err)
	f.waitReleased()
	requireAdmitted(f, hostile.Spec{})
	f.finish()
}

// TestConnectionsOfOneUser checks that other users can connect while one user has as many
// connections as allowed. The server must stay far below the kernel's limit of mappings.
func TestConnectionsOfOneUser(t *testing.T) {
	needsRoot(t)
	f := newFixture(t, hostile.Spec{AnyUser: true, MaxConnsPerUser: short(300, 0)})
	crowd, _ := f.start(hostile.RoleExhauster, otherUser, hostile.Spec{Seed: 2, Rounds: short(400, 3000)})
	note, err := crowd.Await()
	require.NoError(t, err)
	t.Logf("%+v; the server has %+v", note.Attack, f.usage())
	require.NotZero(t, note.Attack.Refused)
	require.Less(t, f.usage().Mappings, 16<<10)
	requireAdmitted(f, hostile.Spec{})
	crowd.Kill()
	// The server may keep the buffers of 2,500 connections.
	f.slack = 200
	f.requireGrowthBelow(256 * mebi)
	f.finish()
}

// requireAdmitted checks that the server accepts a new client.
func requireAdmitted(f *fixture, s hostile.Spec) {
	f.t.Helper()
	s.Conns = 4
	second, _ := f.start(hostile.RoleClient, sameUser, s)
	_, err := second.Finish()
	require.NoError(f.t, err)
}
