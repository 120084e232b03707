//go:build linux

package hostile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/provider/soft"
)

// onEachPath runs a test on the local path and on the wire path. The function with sets
// the path in a Spec.
func onEachPath(t *testing.T, test func(t *testing.T, with func(hostile.Spec) hostile.Spec)) {
	t.Parallel()
	t.Run("local", func(t *testing.T) { test(t, func(s hostile.Spec) hostile.Spec { return s }) })
	t.Run("wire", func(t *testing.T) { test(t, withWirePath) })
}

// TestHalfOpenStreams checks that others can connect to a stream listener while an
// attacker requests many streams and confirms no reply. The half-open streams must not
// take the places of the connections that wait for Accept.
func TestHalfOpenStreams(t *testing.T) {
	onEachPath(t, func(t *testing.T, with func(hostile.Spec) hostile.Spec) {
		const backlog = 16
		f := newStreamFixture(t, hostile.RoleStreamServer, with(hostile.Spec{Backlog: backlog, ConnectTimeout: 5 * time.Second}))
		attacker, _ := f.start(hostile.RoleStreamHalfOpen, sameUser, with(hostile.Spec{Seed: 1, Rounds: 100, Interval: time.Millisecond}))
		_, err := attacker.Await()
		require.NoError(t, err)
		late, _ := f.start(hostile.RoleStreamClient, sameUser, with(hostile.Spec{Conns: 4, Messages: 10, Seed: 2}))
		f.eventually(func() bool { return f.report(late).Tally.Opened >= 20 }, "others cannot connect")
		note, err := late.Finish()
		require.NoError(t, err)
		require.Zero(t, note.Tally.Failed+note.Tally.Lost+note.Tally.Damaged, "%+v", note.Tally)
		note, err = attacker.Finish()
		require.NoError(t, err)
		t.Logf("%+v", note.Attack)
		replies := note.Attack.Admitted
		if f.onWire() {
			replies = note.Attack.Received
		}
		require.Greater(t, replies, uint64(backlog), "the half-open streams would fit in the backlog")
		f.requireGrowthBelow(64 * mebi)
		f.finish()
	})
}

// TestStreamViolations checks that each stream that violates the protocol ends with the
// right error, which is reported once, and that others go on.
func TestStreamViolations(t *testing.T) {
	onEachPath(t, func(t *testing.T, with func(hostile.Spec) hostile.Spec) {
		f := newStreamFixture(t, hostile.RoleStreamCallbacks, with(hostile.Spec{}))
		want := hostile.StreamViolationKinds()
		rounds := uint64(0)
		for _, n := range want {
			rounds += n
		}
		did := f.attack(hostile.RoleStreamViolator, sameUser, with(hostile.Spec{Seed: 1, Rounds: int(rounds)}))
		require.Empty(t, did.DialError)
		require.Equal(t, rounds, did.Refused)
		f.eventually(func() bool { return f.report(f.server).Server.Conns <= f.state.Conns }, "the server has not ended the streams")
		require.Equal(t, want, f.report(f.server).Server.Closed)
		f.requireGrowthBelow(64 * mebi)
		f.finish()
	})
}

// TestSilentStreams checks that 10,000 streams on which the peer sends nothing cost a
// bounded amount of memory and descriptors, that the established streams go on meanwhile,
// and that everything is given back. On the wire path one address gets only a part of the
// connections, so others can still connect.
func TestSilentStreams(t *testing.T) {
	onEachPath(t, func(t *testing.T, with func(hostile.Spec) hostile.Spec) {
		// The race detector makes goroutines ten times as large, so it gets fewer streams.
		streams, most := 10_000/memoryFactor, 0 // 0: the default
		if testing.Short() {
			streams, most = 500, 250
		}
		s := silent(with(hostile.Spec{MaxConnsPerAddress: most}))
		if s.Path != soft.PathWire {
			s.MaxConns = most
		}
		f := newStreamFixture(t, hostile.RoleStreamServer, s)
		attacker, _ := f.start(hostile.RoleStreamSilent, sameUser, going(with(hostile.Spec{Conns: streams})))
		note, err := attacker.Await()
		require.NoError(t, err)
		now := f.usage()
		t.Logf("%+v; the server has %+v", note.Attack, now)
		require.EqualValues(t, streams, note.Attack.Admitted+note.Attack.Refused)
		if memoryFactor == 1 || testing.Short() {
			require.NotZero(t, note.Attack.Refused)
		}
		// Each local connection has a socket, and each stream has a memory file.
		require.LessOrEqual(t, now.Descriptors, f.before.Descriptors+2*int(note.Attack.Admitted)+100)
		f.waitEchoes(100)
		if f.onWire() {
			late, _ := f.start(hostile.RoleStreamClient, sameUser, with(hostile.Spec{Conns: 4, Messages: 5, Seed: 2}))
			note, err := late.Finish()
			require.NoError(t, err)
			require.Zero(t, note.Tally.Failed+note.Tally.Lost+note.Tally.Damaged, "%+v", note.Tally)
		}
		attacker.Kill()
		f.requireGrowthBelow(512 * mebi)
		f.slack = 300
		f.finish()
	})
}
