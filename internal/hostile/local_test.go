//go:build linux

package hostile_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

const mebi = 1 << 20

// needsRoot skips the test where it can not start a process as another user.
func needsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process as another user")
	}
}

// A client that writes random bytes into the memory that it shares with the server
// loses only its own connections.
func TestScribbler(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	did := sc.attack(hostile.RoleScribbler, sameUser, hostile.Spec{Conns: 4, Seed: 7, Rounds: 1000})
	t.Logf("%+v", did)
	require.Greater(t, did.Admitted, uint64(4), "connections ended by what was written")
	sc.grewBy(64 * mebi)
	sc.end()
}

func TestBabbler(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	did := sc.attack(hostile.RoleBabbler, sameUser, hostile.Spec{Seed: 8, Rounds: 500})
	t.Logf("%+v", did)
	require.Equal(t, did.Rounds, did.Refused, "the server hangs up on each")
	sc.grewBy(16 * mebi)
	sc.end()
}

// The server refuses a request that names an address of another host, or a port whose
// name the sender does not hold.
func TestForger(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	did := sc.attack(hostile.RoleForger, sameUser, hostile.Spec{Rounds: 40})
	t.Logf("%+v", did)
	require.Zero(t, did.Admitted)
	sc.end()
}

// The server accepts requests of the forger when they name the address that the
// forger holds. So it refuses the other requests for their source address, and for no
// other reason.
func TestHonestRequest(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	did := sc.attack(hostile.RoleForger, sameUser, hostile.Spec{Rounds: 20, Honest: true})
	t.Logf("%+v", did)
	require.NotZero(t, did.Admitted) // fewer than 20 may be admitted, because a port may be taken by chance
	require.Zero(t, did.Refused)
	sc.end()
}

// By default the server refuses the requests of another user.
func TestOtherUser(t *testing.T) {
	needsRoot(t)
	sc := begin(t, hostile.Spec{})
	did := sc.attack(hostile.RoleForger, otherUser, hostile.Spec{Rounds: 40})
	require.Zero(t, did.Admitted)
	client, _ := sc.start(hostile.RoleClient, otherUser, hostile.Spec{Conns: 2, Expendable: true})
	sc.eventually(func() bool { return sc.report(client).Tally.Ends >= 10 }, "the client is refused")
	note, err := client.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Tally.Opened)
	require.Equal(t, sc.state.Requests, sc.report(sc.server).Server.Requests, "the application sees no request")
	sc.end()
}

// Another user has bound the name of the exact address, and the server listens on the
// wildcard. Clients still reach the server, and send nothing to the other user.
func TestSquatter(t *testing.T) {
	needsRoot(t)
	sc := begin(t, hostile.Spec{Addr: netip.MustParseAddrPort("0.0.0.0:0")})
	squatter, _ := sc.start(hostile.RoleSquatter, otherUser, hostile.Spec{})
	sc.eventually(func() bool { return sc.report(squatter).Attack.Rounds == 1 }, "the name is taken")
	second, _ := sc.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 4, Messages: 10, Seed: 2})
	sc.eventually(func() bool { return sc.report(second).Tally.Opened > 20 }, "clients are let in")
	note, err := second.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Tally.Failed+note.Tally.Lost+note.Tally.Damaged, "%+v", note.Tally)
	note, err = squatter.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Attack.ReceivedBytes, "%+v", note.Attack)
	sc.end()
}
