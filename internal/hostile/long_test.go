//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestLongViolations checks that each connection that violates the protocol for long
// messages ends with the right error, which is reported once, and that the long messages
// of others go on.
func TestLongViolations(t *testing.T) {
	onEachPath(t, func(t *testing.T, with func(hostile.Spec) hostile.Spec) {
		f := newLongFixture(t, with(hostile.Spec{}))
		want := hostile.LongViolationKinds()
		rounds := uint64(0)
		for _, n := range want {
			rounds += n
		}
		did := f.attack(hostile.RoleLongViolator, sameUser, with(hostile.Spec{Seed: 1, Rounds: int(rounds)}))
		require.Empty(t, did.DialError)
		require.Equal(t, rounds, did.Refused)
		f.eventually(func() bool { return f.report(f.server).Server.Conns <= f.state.Conns }, "the server has not ended the connections")
		got := f.report(f.server).Server.Closed
		overtaken := got[hostile.KindPeerClosed] - want[hostile.KindPeerClosed]
		require.LessOrEqual(t, overtaken, want[hostile.KindLongRead])
		want[hostile.KindPeerClosed] += overtaken
		want[hostile.KindLong] += want[hostile.KindLongRead] - overtaken
		delete(want, hostile.KindLongRead)
		require.Equal(t, want, got)
		f.requireGrowthBelow(64 * mebi)
		f.finish()
	})
}

// TestHeldLongMessages checks that the long messages of others go on while a peer on the
// wire announces long messages on more connections than reactor.Config.Memory.LongLoopBytes has
// memory for, and delays the READs. A peer that does not answer at all loses its
// connections, whatever ACK timeout it has proposed.
func TestHeldLongMessages(t *testing.T) {
	t.Parallel()
	for _, hold := range []hostile.Hold{hostile.HoldSilent, hostile.HoldRNR, hostile.HoldTrickle} {
		t.Run(string(hold), func(t *testing.T) {
			f := newLongFixture(t, withWirePath(hostile.Spec{DrainTimeout: drain}))
			conns := 4 // of reactor.Config.Memory.LongConnBytes each, so together LongLoopBytes
			if hold == hostile.HoldSilent {
				long(t, "takes 35 s, because the attacker has the longest ACK timeout")
				conns = 3 // as many as get memory at once; each ends after 34 s
			}
			holder, _ := f.start(hostile.RoleLongHolder, sameUser, withWirePath(hostile.Spec{
				Conns: conns, MaxLongMessage: hostile.LongMessage, Hold: hold, Seed: 3,
			}))
			note, err := holder.Await()
			require.NoError(t, err)
			require.EqualValues(t, conns, note.Attack.Admitted)
			if hold == hostile.HoldSilent {
				retries := verbs.StatusRetryExcErr.String()
				f.eventually(func() bool { return f.report(f.server).Server.Closed[retries] > 0 }, "the connections do not end")
			}
			f.waitEchoes(200)
			t.Logf("%+v; %v", f.report(holder).Attack, f.report(f.server).Server.Closed)
			_, err = holder.Finish()
			require.NoError(t, err)
			f.requireGrowthBelow(64 * mebi)
			f.finish()
		})
	}
}
