//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newHangFixture is newLongFixture for a server that soon finds a peer that hangs. On the
// local path the server does not use the ACK timeout of the peer, so its own one applies to
// the correct clients, too.
func newHangFixture(t *testing.T, s hostile.Spec) *fixture {
	s = silent(s)
	if s.Path != soft.PathWire {
		s.AckTimeout, s.Keepalive = 2*ackTimeout, 2*keepalive
	}
	return newLongFixture(t, s)
}

// TestHangingClient checks that the long messages of a client arrive while the loop of
// another process hangs in the middle of several long messages. The server ends the
// connections of that process, on both paths with the same error.
func TestHangingClient(t *testing.T) {
	onEachPath(t, func(t *testing.T, with func(hostile.Spec) hostile.Spec) {
		f := newHangFixture(t, with(hostile.Spec{}))
		const conns = 6 // more than reactor.Config.Memory.LongLoopBytes has memory for
		hanging, _ := f.start(hostile.RoleHanging, sameUser, going(with(hostile.Spec{Conns: conns})))
		note, err := hanging.Await()
		require.NoError(t, err)
		require.EqualValues(t, conns, note.Attack.Admitted)
		f.waitEchoes(200)
		f.eventually(func() bool { return f.report(f.server).Server.Conns <= f.state.Conns }, "the server has not ended the connections")
		require.NotZero(t, f.report(f.server).Server.Closed[verbs.StatusRetryExcErr.String()], "READs must fail")
		_, err = hanging.Finish()
		require.NoError(t, err)
		f.finish()
	})
}

// TestStoppedClientEnds checks that the server ends the connections of a process that is
// stopped and does not go on.
func TestStoppedClientEnds(t *testing.T) {
	onEachPath(t, func(t *testing.T, with func(hostile.Spec) hostile.Spec) {
		f := newHangFixture(t, with(hostile.Spec{}))
		other, _ := f.start(hostile.RoleClient, sameUser, going(with(hostile.Spec{Conns: 6, MaxLongMessage: hostile.LongMessage, PrivateRegions: true, Expendable: true})))
		f.eventually(func() bool { return f.report(other).Tally.Echoes > 20 }, "the other client gets no echoes")
		require.NoError(t, other.Stop())
		f.waitEchoes(200)
		f.eventually(func() bool { return f.report(f.server).Server.Conns <= f.state.Conns }, "the server has not ended the connections")
		require.NoError(t, other.Continue())
		_, err := other.Finish()
		require.NoError(t, err)
		f.finish()
	})
}
