//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// A server without free descriptors keeps its connections and refuses new ones. It
// admits clients again when descriptors are free.
func TestDescriptorLimit(t *testing.T) {
	sc := begin(t, hostile.Spec{Descriptors: 100})
	crowd, _ := sc.start(hostile.RoleCrowd, sameUser, hostile.Spec{Seed: 1, Rounds: 200})
	note, err := crowd.Await()
	require.NoError(t, err)
	t.Logf("%+v; the server has %+v", note.Attack, sc.usage())
	require.NotZero(t, note.Attack.Refused)
	sc.echoes(100)
	_, err = crowd.Finish()
	require.NoError(t, err)
	sc.settled()
	admitted(sc, hostile.Spec{})
	sc.end()
}

// When one user opens as many connections as the server admits, there is room for
// other users, and the server has far fewer mappings than vm.max_map_count allows.
func TestCrowdOfOneUser(t *testing.T) {
	needsRoot(t)
	sc := begin(t, hostile.Spec{AnyUser: true})
	crowd, _ := sc.start(hostile.RoleCrowd, otherUser, hostile.Spec{Seed: 2, Rounds: 3000})
	note, err := crowd.Await()
	require.NoError(t, err)
	t.Logf("%+v; the server has %+v", note.Attack, sc.usage())
	require.NotZero(t, note.Attack.Refused)
	require.Less(t, sc.usage().Mappings, 16<<10)
	admitted(sc, hostile.Spec{})
	crowd.Kill()
	sc.slack = 200 // mappings for the buffers of 2,500 connections
	sc.grewBy(256 * mebi)
	sc.end()
}

// admitted requires that a client can connect now.
func admitted(sc *scene, s hostile.Spec) {
	sc.t.Helper()
	s.Conns = 4
	second, _ := sc.start(hostile.RoleClient, sameUser, s)
	_, err := second.Finish()
	require.NoError(sc.t, err)
}
