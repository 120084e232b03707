package pairtest_test

import (
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A wait fails after this time. Arbitrary.
const hangTimeout = 30 * time.Second

// A scenario is a test with two sides.
type scenario struct {
	name string
	// The active side connects, and the passive side listens.
	active, passive func(*peer)
}

// runScenarios runs one side of all scenarios.
func runScenarios(t *testing.T, run func(*testing.T, scenario)) {
	for _, group := range []struct {
		name      string
		scenarios []scenario
	}{
		{"connection", connectionScenarios()},
		{"traffic", trafficScenarios()},
		{"window", windowScenarios()},
		{"clean", cleanScenarios()},
		{"failure", failureScenarios()},
		{"datagram", datagramScenarios()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, s := range group.scenarios {
				t.Run(s.name, func(t *testing.T) { run(t, s) })
			}
		})
	}
}

// A peer is one side of a running scenario.
type peer struct {
	*require.Assertions
	*fixture
	t      *testing.T
	queues []*queue
}

func (f *fixture) newPeer(t *testing.T) *peer {
	return &peer{Assertions: require.New(t), fixture: f, t: t}
}

// waitUntil polls the completion queues and takes events until done() returns true.
func (p *peer) waitUntil(condition string, done func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(hangTimeout); !done(); runtime.Gosched() {
		for _, q := range p.queues {
			q.poll()
		}
		p.takeEvent(p.t)
		if time.Now().After(deadline) {
			p.FailNow("timed out waiting for "+condition, "events: %+v", p.events)
		}
	}
}

// await returns the next event of an ID. The event must have the given type.
func (p *peer) await(owner *cm.ID, typ cm.EventType) event {
	p.t.Helper()
	mine := func(ev event) bool { return ev.owner == owner }
	p.waitUntil(typ.String(), func() bool { return slices.ContainsFunc(p.events, mine) })
	i := slices.IndexFunc(p.events, mine)
	ev := p.events[i]
	p.events = slices.Delete(p.events, i, i+1)
	p.Equal(typ, ev.typ, "%v: %v", ev.typ, ev.err)
	return ev
}

// resolve returns an ID that is ready to connect to the given port of the peer.
func (p *peer) resolve(ps cm.PortSpace, port uint16, ackTimeout uint8) *cm.ID {
	p.t.Helper()
	id, err := p.channel.NewID(ps)
	p.NoError(err)
	closeAtCleanup(p.t, id)
	p.NoError(id.ResolveAddr(netip.AddrPort{}, withPort(p.remoteAddr, port), hangTimeout))
	p.await(id, cm.AddrResolved)
	if ackTimeout != 0 {
		p.NoError(id.SetAckTimeout(ackTimeout))
	}
	p.NoError(id.ResolveRoute(hangTimeout))
	p.await(id, cm.RouteResolved)
	return id
}

// awaitRequest waits for the next REQ or SIDR REQ to a listener.
func (p *peer) awaitRequest(listener *cm.ID) event {
	p.t.Helper()
	ev := p.await(listener, cm.ConnectRequest)
	closeAtCleanup(p.t, ev.id)
	return ev
}

// awaitMarkedRequest waits for a connection request whose private data begins with the
// parameter mark. Other requests may be retransmissions, so they are rejected.
func (p *peer) awaitMarkedRequest(mark byte) event {
	p.t.Helper()
	for {
		ev := p.awaitRequest(p.tcpListener)
		if data := ev.param.PrivateData; len(data) > 0 && data[0] == mark {
			return ev
		}
		p.NoError(ev.id.Reject(nil))
	}
}

// A queue is a completion queue, with the completions that were polled but not yet taken.
type queue struct {
	p   *peer
	cq  verbs.CQ
	wcs []verbs.WC
}

func (p *peer) newQueue(depth int) *queue {
	p.t.Helper()
	cq, err := p.device.CreateCQ(&verbs.CQAttr{Depth: depth, Progress: verbs.ProgressManual, Vector: p.vector})
	p.NoError(err)
	closeAtCleanup(p.t, cq)
	q := &queue{p: p, cq: cq}
	p.queues = append(p.queues, q)
	return q
}

func (q *queue) poll() {
	q.p.t.Helper()
	var wcs [16]verbs.WC
	n, err := q.cq.Poll(wcs[:])
	q.p.NoError(err)
	q.wcs = append(q.wcs, wcs[:n]...)
}

// take waits for n completions with the given status.
func (q *queue) take(n int, status verbs.Status) []verbs.WC {
	q.p.t.Helper()
	q.p.waitUntil("completions", func() bool { return len(q.wcs) >= n })
	got := slices.Clone(q.wcs[:n])
	q.wcs = q.wcs[n:]
	for i, wc := range got {
		q.p.Equal(status, wc.Status, "completion %d of %d is %v", i, n, wc.Status)
	}
	return got
}

// takeOne waits for one successful completion.
func (q *queue) takeOne() verbs.WC {
	q.p.t.Helper()
	return q.take(1, verbs.StatusSuccess)[0]
}
