//go:build linux

package hostile_test

import (
	"flag"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/soft"
)

func TestMain(m *testing.M) {
	if hostile.IsChild() {
		os.Exit(hostile.Child())
	}
	flag.Parse()
	if testing.Short() {
		// With -short most tests wait more than they compute. Without it, they measure how long
		// others wait beside an attack, so only GOMAXPROCS of them run at a time.
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err)
		}
	}
	leak.Main(m)
}

// short returns its first parameter with -short, and else the second. The tests of -short
// have the same attacks, with fewer connections, packets and rounds.
func short[T any](quick, usual T) T {
	if testing.Short() {
		return quick
	}
	return usual
}

// long skips a test that takes long. The text says how long, and what it checks that
// others do not.
func long(t *testing.T, reason string) {
	if testing.Short() {
		t.Skip(reason + ": make hostile and make test-full run it")
	}
}

// The waits for a peer that has gone without a word, instead of the defaults of 8.6, 5
// and 30 s.
const (
	// ackTimeout is only for the connections of the peers that go: on a busy machine, a
	// correct peer can be without a processor for the eight times this time after which the
	// retries end.
	ackTimeout = 268 * time.Millisecond
	drain      = time.Second
	// keepalive is longer than all retries with ackTimeout. It ends the connections to
	// which the server has sent nothing.
	keepalive = 3 * time.Second
)

// silent returns the Spec of a server with short waits for peers that have gone.
func silent(s hostile.Spec) hostile.Spec {
	s.DrainTimeout, s.Keepalive = drain, keepalive
	return s
}

// going returns the Spec of a peer that goes without a word. On the wire path the server
// uses the ACK timeout that the peer proposes.
func going(s hostile.Spec) hostile.Spec {
	s.AckTimeout = ackTimeout
	return s
}

// never is a time limit that no test reaches.
const never = 10 * time.Minute

// clientPause is the pause of the client of a fixture with -short. Arbitrary.
const clientPause = 40 * time.Millisecond

// A server must release the resources of an attack within this time. It is longer than
// reactor.Config.Limits.DrainTimeout.
const settleLimit = 90 * time.Second

// sameUser is a user ID that means the user of the test.
const sameUser = -1

// otherUser is the ID of a user who is neither root nor the user of the test. The user
// needs no account. Arbitrary.
const otherUser = 54321

// A fixture has a server under attack, and a client that must lose nothing.
type fixture struct {
	t      *testing.T
	path   soft.Path
	addr   netip.AddrPort
	server *hostile.Process
	client *hostile.Process
	before hostile.Usage // usage before the attack
	state  hostile.ServerState
	// How many more mappings and descriptors the server may have at the end. The Go runtime
	// adds some mappings, and a loop keeps unused buffers for a while.
	slack, slackDescriptors int
}

// newFixture starts a server and a client with several connections. The default is the
// local path.
func newFixture(t *testing.T, s hostile.Spec) *fixture {
	return newFixtureOf(t, hostile.RoleServer, hostile.RoleClient, s)
}

// newStreamFixture is newFixture for a server on package stream in the given role.
func newStreamFixture(t *testing.T, serverRole hostile.Role, s hostile.Spec) *fixture {
	if s.Path == soft.PathWire {
		s.Addr = netip.AddrPortFrom(newAddr(), 0)
	}
	return newFixtureOf(t, serverRole, hostile.RoleStreamClient, s)
}

// newLongFixture is newFixture for a server and a client with long messages.
func newLongFixture(t *testing.T, s hostile.Spec) *fixture {
	if s.Path == soft.PathWire {
		s.Addr = netip.AddrPortFrom(newAddr(), 0)
	}
	s.MaxLongMessage = hostile.LongMessage
	f := newFixture(t, s)
	// The client's own long messages need a memory file for each buffer on the local path.
	f.slack, f.slackDescriptors = 400, 100
	return f
}

// newTargetFixture is newFixture for an NVMe target and a host.
func newTargetFixture(t *testing.T, s hostile.Spec) *fixture {
	if s.Path == soft.PathWire {
		s.Addr = netip.AddrPortFrom(newAddr(), 0)
	}
	return newFixtureOf(t, hostile.RoleTarget, hostile.RoleHost, s)
}

// newFixtureOf starts a server and a client in the given roles.
func newFixtureOf(t *testing.T, serverRole, clientRole hostile.Role, s hostile.Spec) *fixture {
	// Tests can run in parallel, because each test measures only its own processes.
	t.Parallel()
	if !s.Addr.IsValid() {
		s.Addr = netip.MustParseAddrPort("127.0.0.1:0")
	}
	server, note := start(t, serverRole, sameUser, s)
	f := &fixture{t: t, path: s.Path, addr: note.Addr, server: server, slack: 24, slackDescriptors: 2}
	if f.addr.Addr().IsUnspecified() {
		f.addr = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), f.addr.Port())
	}
	pause := short(clientPause, 0)
	if clientRole == hostile.RoleHost {
		pause /= 20 // It has only one command in flight.
	}
	f.client, _ = f.start(clientRole, sameUser, hostile.Spec{
		Path: s.Path, Conns: 4, Seed: 1, MaxLongMessage: s.MaxLongMessage,
		DrainTimeout: s.DrainTimeout, Pause: pause,
	})
	f.waitEchoes(100)
	f.before, f.state = f.usage(), f.report(server).Server
	return f
}

// start starts a process, which is killed at the end of the test.
func start(t *testing.T, r hostile.Role, uid int, s hostile.Spec) (*hostile.Process, hostile.Note) {
	t.Helper()
	p, note, err := hostile.Start(r, uid, &s)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p, note
}

func (f *fixture) onWire() bool { return f.path == soft.PathWire }

// start starts a process that dials the server.
func (f *fixture) start(r hostile.Role, uid int, s hostile.Spec) (*hostile.Process, hostile.Note) {
	f.t.Helper()
	s.Addr = f.addr
	if s.Path == soft.PathWire && !s.From.IsValid() {
		s.From = newAddr()
	}
	return start(f.t, r, uid, s)
}

// attack runs an attacker until its rounds are over.
func (f *fixture) attack(r hostile.Role, uid int, s hostile.Spec) hostile.Attack {
	f.t.Helper()
	p, _ := f.start(r, uid, s)
	_, err := p.Await()
	require.NoError(f.t, err)
	note, err := p.Finish()
	require.NoError(f.t, err)
	return note.Attack
}

func (f *fixture) report(p *hostile.Process) hostile.Note {
	f.t.Helper()
	note, err := p.Report()
	require.NoError(f.t, err)
	return note
}

// waitEchoes waits until the client has received n more echoes, or a quarter of that with
// -short, because its client sends less.
func (f *fixture) waitEchoes(n uint64) {
	f.t.Helper()
	n = short(n/4, n)
	want := f.report(f.client).Tally.Echoes + n
	f.eventually(func() bool { return f.report(f.client).Tally.Echoes >= want }, "the client gets no echoes")
}

func (f *fixture) eventually(condition func() bool, failure string) {
	f.t.Helper()
	require.Eventually(f.t, condition, settleLimit, 20*time.Millisecond, failure)
}

// usage returns the resources that the server uses.
func (f *fixture) usage() hostile.Usage {
	f.t.Helper()
	u, err := hostile.UsageOf(f.server.PID())
	require.NoError(f.t, err)
	return u
}

// waitReleased waits until the server has released the resources of the attack. A few
// descriptors and mappings may remain.
func (f *fixture) waitReleased() {
	f.t.Helper()
	var now hostile.Usage
	var state hostile.ServerState
	back := func() bool {
		now, state = f.usage(), f.report(f.server).Server
		return state.Conns <= f.state.Conns && state.Goroutines <= f.state.Goroutines &&
			now.Descriptors <= f.before.Descriptors+f.slackDescriptors &&
			now.Mappings <= f.before.Mappings+f.slack
	}
	began := time.Now()
	deadline, logAfter := began.Add(settleLimit), began.Add(5*time.Second)
	for !back() {
		if time.Now().After(logAfter) {
			f.t.Logf("after %v the server still has %+v, %+v", time.Since(began), now, state)
			logAfter = deadline
		}
		require.True(f.t, time.Now().Before(deadline), "the server has %+v, %+v; before the attack it had %+v, %+v", now, state, f.before, f.state)
		time.Sleep(50 * time.Millisecond)
	}
}

// requireGrowthBelow checks that the attack has increased the server's memory by fewer
// bytes than the limit.
func (f *fixture) requireGrowthBelow(limit uint64) {
	f.t.Helper()
	grown := int64(f.usage().Peak) - int64(f.before.Resident)
	f.t.Logf("the server's memory grew by %.1f MiB at most", float64(grown)/(1<<20))
	require.Less(f.t, grown, int64(limit*memoryFactor))
}

// finish ends the client and the server after the server has released the resources of
// the attack. The client must have lost nothing.
func (f *fixture) finish() {
	f.t.Helper()
	f.waitEchoes(100)
	f.waitReleased()
	note, err := f.client.Finish()
	require.NoError(f.t, err)
	f.t.Logf("time of an echo, p99.9: %v, and of the longest: %v; client: %+v", note.Tally.P999, note.Tally.Longest, note.Tally)
	require.Zero(f.t, note.Tally.Lost+note.Tally.Damaged+note.Tally.Failed, "%+v", note.Tally)
	_, err = f.server.Finish()
	require.NoError(f.t, err)
}

// Number of addresses that newAddr has returned.
var addrs atomic.Uint32

// newAddr returns an address that no other process of these tests uses.
func newAddr() netip.Addr { return hostile.Addr(int(addrs.Add(1))) }
