//go:build linux

package hostile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// onBothPaths runs the test on the local path and on the wire path. The function spec
// sets the path in a Spec.
func onBothPaths(t *testing.T, test func(f *fixture, spec func(hostile.Spec) hostile.Spec), s hostile.Spec) {
	t.Run("local", func(t *testing.T) {
		test(newFixture(t, s), func(s hostile.Spec) hostile.Spec { return s })
	})
	t.Run("wire", func(t *testing.T) { test(newWireFixture(t, s), withWirePath) })
}

// TestHangingClient checks that the long messages of a client arrive while the loop of
// another process hangs in the middle of several long messages. The server ends the
// connections of that process.
func TestHangingClient(t *testing.T) {
	onBothPaths(t, func(f *fixture, spec func(hostile.Spec) hostile.Spec) {
		const conns = 6
		hanging, _ := f.start(hostile.RoleHanging, sameUser, spec(hostile.Spec{Conns: conns}))
		note, err := hanging.Await()
		require.NoError(f.t, err)
		require.EqualValues(f.t, conns, note.Attack.Admitted)
		f.waitEchoes(200)
		f.waitReleased()
		_, err = hanging.Finish()
		require.NoError(f.t, err)
		f.finish()
	}, hostile.Spec{MaxLongMessage: hostile.MaxLongMessage, Keepalive: 5 * time.Second})
}

// TestStoppedClientEnds checks that the server ends the connections of a process that is
// stopped and does not go on.
func TestStoppedClientEnds(t *testing.T) {
	onBothPaths(t, func(f *fixture, spec func(hostile.Spec) hostile.Spec) {
		other, _ := f.start(hostile.RoleClient, sameUser, spec(hostile.Spec{Conns: 6, MaxLongMessage: hostile.MaxLongMessage, PrivateRegions: true, Expendable: true}))
		f.eventually(func() bool { return f.report(other).Tally.Echoes > 20 }, "the other client gets no echoes")
		require.NoError(f.t, other.Stop())
		f.waitEchoes(200)
		f.waitReleased()
		require.NoError(f.t, other.Continue())
		_, err := other.Finish()
		require.NoError(f.t, err)
		f.finish()
	}, hostile.Spec{MaxLongMessage: hostile.MaxLongMessage, Keepalive: 5 * time.Second})
}
