//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// A client that stands still for a moment loses nothing, and holds up nobody.
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
