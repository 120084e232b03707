//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// TestKilledHost checks that an NVMe target releases the buffers of hosts that are killed
// while READs and WRITEs of 1 MiB are outstanding. One host alone can occupy all buffers
// of the target. The commands of another host go on.
func TestKilledHost(t *testing.T) {
	onEachPath(t, func(t *testing.T, with func(hostile.Spec) hostile.Spec) {
		f := newTargetFixture(t, silent(with(hostile.Spec{})))
		for round := range short[uint64](1, 3) {
			host, _ := f.start(hostile.RoleBusyHost, sameUser, going(with(hostile.Spec{Conns: 2, Seed: 10 + round})))
			f.eventually(func() bool { return f.report(host).Attack.Received >= 20 }, "the host gets no responses")
			host.Kill()
			f.waitEchoes(20)
		}
		f.eventually(func() bool { return f.report(f.server).Server.Conns <= f.state.Conns }, "the connections do not end")
		t.Logf("%v", f.report(f.server).Server.Closed)
		f.requireGrowthBelow(64 * mebi)
		f.finish()
	})
}

// TestHostileHost checks that an NVMe target ends the connections of a host with wrong
// keys, addresses and lengths, too many commands, and queues that are connected twice, or
// answers with an error. The commands of another host go on.
func TestHostileHost(t *testing.T) {
	onEachPath(t, func(t *testing.T, with func(hostile.Spec) hostile.Spec) {
		f := newTargetFixture(t, with(hostile.Spec{}))
		const violations, answered = 19, 7
		did := f.attack(hostile.RoleHostileHost, sameUser, with(hostile.Spec{Seed: 7, Rounds: violations}))
		require.EqualValues(t, violations-answered, did.Refused)
		require.EqualValues(t, answered, did.Admitted)
		f.eventually(func() bool { return f.report(f.server).Server.Conns <= f.state.Conns }, "the connections do not end")
		s := f.report(f.server).Server
		ended := uint64(0)
		for _, n := range s.Closed {
			ended += n
		}
		t.Logf("%v", s.Closed)
		require.Equal(t, s.Opened, ended+s.Conns, "each connection ends once")
		f.requireGrowthBelow(64 * mebi)
		f.finish()
	})
}
