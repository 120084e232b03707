//go:build linux

package hostile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// TestForbiddenRequests checks that a client that violates the protocol on each of its
// connections gets few of them, while other clients have many idle connections.
func TestForbiddenRequests(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	idle, _ := f.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: short(100, 2000), Pause: time.Hour, Seed: 3})
	const atOnce = 16
	rounds := short(500, 2000)
	began := time.Now()
	did := f.attack(hostile.RoleForbidder, sameUser, hostile.Spec{Conns: atOnce, Rounds: rounds})
	// access.ErrorLimit allows 64 violations at once and 8 in a second.
	most := 64 + 8*(1+int(time.Since(began)/time.Second)) + atOnce
	t.Logf("%+v in %v; at most %d connections are allowed; longest echo %v",
		did, time.Since(began), most, f.report(f.client).Tally.Longest)
	require.GreaterOrEqual(t, did.Admitted, uint64(64))
	require.LessOrEqual(t, did.Admitted, uint64(most))
	require.GreaterOrEqual(t, f.report(f.server).Server.Counters["access_refused"], did.Refused)
	requireAdmitted(f, hostile.Spec{})
	_, err := idle.Finish()
	require.NoError(t, err)
	f.slack = 200 // The server may keep the buffers of 2,000 connections.
	f.finish()
}
