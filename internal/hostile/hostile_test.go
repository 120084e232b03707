//go:build linux

package hostile_test

import (
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/internal/leak"
	"github.com/rdmaloop/rdmaloop/provider/soft"
)

func TestMain(m *testing.M) {
	if hostile.IsChild() {
		os.Exit(hostile.Child())
	}
	leak.Main(m)
}

// settleLimit is how long a server may take to release what an attack used. It bounds
// a hanging test. It has to be longer than reactor.Config.DrainTimeout.
const settleLimit = 90 * time.Second

// sameUser starts a process with the user of the test.
const sameUser = -1

// otherUser is the ID of a user that is neither root nor the user of the test. No
// account with the number has to exist; the number is arbitrary.
const otherUser = 54321

// A scene is a server, and a client that must lose no message and no connection.
type scene struct {
	t      *testing.T
	addr   netip.AddrPort
	server *hostile.Process
	client *hostile.Process
	before hostile.Usage // usage of the server before the attack, with the client connected
	state  hostile.ServerState
	// slack is how many more mappings the server may have in the end. The Go runtime may
	// add some, and the buffers of a loop stay until they are trimmed.
	slack int
}

// begin starts a server and a client with some connections, on the local path unless
// the spec names another path.
func begin(t *testing.T, s hostile.Spec) *scene {
	t.Parallel() // each test counts the resources of its own processes
	if !s.Addr.IsValid() {
		s.Addr = netip.MustParseAddrPort("127.0.0.1:0")
	}
	server, note := start(t, hostile.RoleServer, sameUser, s)
	sc := &scene{t: t, addr: note.Addr, server: server, slack: 24}
	if sc.addr.Addr().IsUnspecified() {
		sc.addr = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), sc.addr.Port())
	}
	sc.client, _ = sc.start(hostile.RoleClient, sameUser, hostile.Spec{Path: s.Path, Conns: 4, Seed: 1})
	sc.echoes(100)
	sc.before, sc.state = sc.usage(), sc.report(server).Server
	return sc
}

// start starts a process, which is killed when the test ends.
func start(t *testing.T, r hostile.Role, uid int, s hostile.Spec) (*hostile.Process, hostile.Note) {
	t.Helper()
	p, note, err := hostile.Start(r, uid, &s)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p, note
}

// start starts a process that dials the server.
func (sc *scene) start(r hostile.Role, uid int, s hostile.Spec) (*hostile.Process, hostile.Note) {
	sc.t.Helper()
	s.Addr = sc.addr
	if s.Path == soft.PathWire && !s.From.IsValid() {
		s.From = newAddr()
	}
	return start(sc.t, r, uid, s)
}

// attack starts an attacker, waits until its rounds are over, and ends it.
func (sc *scene) attack(r hostile.Role, uid int, s hostile.Spec) hostile.Attack {
	sc.t.Helper()
	p, _ := sc.start(r, uid, s)
	_, err := p.Await()
	require.NoError(sc.t, err)
	note, err := p.Finish()
	require.NoError(sc.t, err)
	return note.Attack
}

func (sc *scene) report(p *hostile.Process) hostile.Note {
	sc.t.Helper()
	note, err := p.Report()
	require.NoError(sc.t, err)
	return note
}

// echoes waits until the client has received n more echoes.
func (sc *scene) echoes(n uint64) {
	sc.t.Helper()
	want := sc.report(sc.client).Tally.Echoes + n
	sc.eventually(func() bool { return sc.report(sc.client).Tally.Echoes >= want }, "the client gets its echoes")
}

func (sc *scene) eventually(is func() bool, what string) {
	sc.t.Helper()
	require.Eventually(sc.t, is, settleLimit, 20*time.Millisecond, what)
}

// usage returns the resources that the server uses.
func (sc *scene) usage() hostile.Usage {
	sc.t.Helper()
	u, err := hostile.UsageOf(sc.server.PID())
	require.NoError(sc.t, err)
	return u
}

// settled waits until the server has no more connections, descriptors and mappings
// than before the attack, except for the slack.
func (sc *scene) settled() {
	sc.t.Helper()
	const slackDescriptors = 2
	var now hostile.Usage
	var state hostile.ServerState
	back := func() bool {
		now, state = sc.usage(), sc.report(sc.server).Server
		return state.Conns <= sc.state.Conns && state.Goroutines <= sc.state.Goroutines &&
			now.Descriptors <= sc.before.Descriptors+slackDescriptors &&
			now.Mappings <= sc.before.Mappings+sc.slack
	}
	began := time.Now()
	deadline, tell := began.Add(settleLimit), began.Add(5*time.Second)
	for !back() {
		if time.Now().After(tell) {
			sc.t.Logf("after %v the server still keeps %+v, %+v", time.Since(began), now, state)
			tell = deadline
		}
		require.True(sc.t, time.Now().Before(deadline), "the server keeps %+v, %+v; before it had %+v, %+v", now, state, sc.before, sc.state)
		time.Sleep(50 * time.Millisecond)
	}
}

// grewBy requires that the memory of the server has never exceeded the memory before
// the attack by limit bytes or more.
func (sc *scene) grewBy(limit uint64) {
	sc.t.Helper()
	grown := int64(sc.usage().Peak) - int64(sc.before.Resident)
	sc.t.Logf("the server's memory grew by %.1f MiB at most", float64(grown)/(1<<20))
	require.Less(sc.t, grown, int64(limit*memoryFactor))
}

// end requires that the client lost nothing and still gets echoes, that the server
// uses no more than before, and that both finish without an error.
func (sc *scene) end() {
	sc.t.Helper()
	sc.echoes(100)
	sc.settled()
	note, err := sc.client.Finish()
	require.NoError(sc.t, err)
	sc.t.Logf("client: %+v", note.Tally)
	require.Zero(sc.t, note.Tally.Lost+note.Tally.Damaged+note.Tally.Failed, "%+v", note.Tally)
	_, err = sc.server.Finish()
	require.NoError(sc.t, err)
}

// addrs counts the addresses that newAddr has given out.
var addrs atomic.Uint32

// newAddr returns an address of this host that no other process of the tests has.
func newAddr() netip.Addr { return hostile.Addr(int(addrs.Add(1))) }
