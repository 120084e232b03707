//go:build linux

package hostile_test

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

const mebi = 1 << 20

// needsRoot skips the test if this process can not start processes as another user.
func needsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process as another user")
	}
}

// TestMemoryCorruption checks that a client that corrupts shared memory ends only its own
// connections.
func TestMemoryCorruption(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	did := f.attack(hostile.RoleCorrupter, sameUser, hostile.Spec{Conns: 4, Seed: 7, Rounds: short(300, 1000)})
	t.Logf("%+v", did)
	require.Greater(t, did.Admitted, uint64(4), "no connection was ended by the corruption")
	f.requireGrowthBelow(64 * mebi)
	f.finish()
}

func TestMalformedPackets(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	did := f.attack(hostile.RoleMalformed, sameUser, hostile.Spec{Seed: 8, Rounds: short(200, 500)})
	t.Logf("%+v", did)
	require.Equal(t, did.Rounds, did.Refused, "the server closes each connection")
	f.requireGrowthBelow(16 * mebi)
	f.finish()
}

// TestSpoofedAddresses checks that the server refuses false source addresses.
func TestSpoofedAddresses(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	did := f.attack(hostile.RoleSpoofer, sameUser, hostile.Spec{Rounds: 40})
	t.Logf("%+v", did)
	require.Zero(t, did.Admitted)
	f.finish()
}

// TestRequestWithOwnAddress checks that the server accepts the attacker's true address.
// Otherwise TestSpoofedAddresses would prove nothing.
func TestRequestWithOwnAddress(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	did := f.attack(hostile.RoleSpoofer, sameUser, hostile.Spec{Rounds: 20, OwnAddress: true})
	t.Logf("%+v", did)
	// The attacker skips a round if another socket has the port.
	require.NotZero(t, did.Admitted)
	require.Zero(t, did.Refused)
	f.finish()
}

// TestOtherUser checks that by default the server refuses processes of another user.
func TestOtherUser(t *testing.T) {
	needsRoot(t)
	f := newFixture(t, hostile.Spec{})
	did := f.attack(hostile.RoleSpoofer, otherUser, hostile.Spec{Rounds: 40})
	require.Zero(t, did.Admitted)
	client, _ := f.start(hostile.RoleClient, otherUser, hostile.Spec{Conns: 2, Expendable: true})
	f.eventually(func() bool { return f.report(client).Tally.Ends >= 10 }, "the client is not refused")
	note, err := client.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Tally.Opened)
	require.Equal(t, f.state.Requests, f.report(f.server).Server.Requests, "the application got a request")
	f.finish()
}

// TestManyLocalHalfMessages checks that the incomplete messages of one process hold at
// most a quarter of the shared receive buffers. Other processes get their echoes
// meanwhile, and connect.
func TestManyLocalHalfMessages(t *testing.T) {
	conns, buffers := short(160, 1100), short(128, 1024)
	f := newFixture(t, hostile.Spec{SharedRecvBuffers: short(buffers, 0)})
	halves, _ := f.start(hostile.RoleLocalHalves, sameUser, hostile.Spec{Conns: conns})
	note, err := halves.Await()
	require.NoError(t, err)
	refused := f.report(f.server).Server.Counters["partial_message_refused"]
	t.Logf("%+v; refused %d", note.Attack, refused)
	require.EqualValues(t, conns, note.Attack.Sent)
	require.GreaterOrEqual(t, refused, uint64(conns-buffers/4))
	f.waitEchoes(1000)
	requireAdmitted(f, hostile.Spec{})
	halves.Kill()
	// The server may keep the buffers of 1,100 connections.
	f.slack = 200
	f.finish()
}

// TestForeignConnects checks that clients can connect while a process of a user who is
// not allowed connects without a pause. The server closes its sockets, most of them
// without a message.
func TestForeignConnects(t *testing.T) {
	needsRoot(t)
	f := newFixture(t, hostile.Spec{})
	churn := f.churn(hostile.Spec{Conns: 1})
	began := time.Now()
	did := f.attack(hostile.RoleSilent, otherUser, hostile.Spec{Conns: 200, Rounds: short(20, 200)})
	seconds := uint64(time.Since(began)/time.Second) + 1
	t.Logf("%+v", did)
	require.Equal(t, did.Sent, did.Refused, "the server closes each socket")
	// The server explains 64 refusals in a burst, and 64 a second.
	require.LessOrEqual(t, did.Received, 64*(1+seconds), "the server explains few refusals")
	churn.finish()
	f.requireGrowthBelow(16 * mebi)
	f.finish()
}

// TestNameSquatting checks a server on the wildcard address while another user has bound
// the socket name of one address. Clients must reach only the server.
func TestNameSquatting(t *testing.T) {
	needsRoot(t)
	f := newFixture(t, hostile.Spec{Addr: netip.MustParseAddrPort("0.0.0.0:0")})
	squatter, _ := f.start(hostile.RoleSquatter, otherUser, hostile.Spec{})
	f.eventually(func() bool { return f.report(squatter).Attack.Rounds == 1 }, "the attacker could not bind the name")
	second, _ := f.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 4, Messages: 10, Seed: 2})
	f.eventually(func() bool { return f.report(second).Tally.Opened > 20 }, "clients could not connect")
	note, err := second.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Tally.Failed+note.Tally.Lost+note.Tally.Damaged, "%+v", note.Tally)
	note, err = squatter.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Attack.ReceivedBytes, "%+v", note.Attack)
	f.finish()
}
