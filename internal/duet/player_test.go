package duet_test

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

// patience is how long a wait may last before it counts as a hang.
const patience = 30 * time.Second

// A piece is a test from both sides.
type piece struct {
	name          string
	first, second func(*player) // who connects, who listens
}

// perform plays all pieces, by topic.
func perform(t *testing.T, play func(*testing.T, piece)) {
	for _, topic := range []struct {
		name   string
		pieces []piece
	}{
		{"connection", connectionPieces()},
		{"traffic", trafficPieces()},
		{"clean", cleanPieces()},
		{"failure", failurePieces()},
		{"datagram", datagramPieces()},
	} {
		t.Run(topic.name, func(t *testing.T) {
			for _, piece := range topic.pieces {
				t.Run(piece.name, func(t *testing.T) { play(t, piece) })
			}
		})
	}
}

// A player is a stage during one piece.
type player struct {
	*require.Assertions
	*stage
	t      *testing.T
	queues []*queue
}

func (s *stage) enter(t *testing.T) *player {
	return &player{Assertions: require.New(t), stage: s, t: t}
}

// until does what there is to do until done says so.
func (p *player) until(what string, done func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); !done(); runtime.Gosched() {
		for _, q := range p.queues {
			q.poll()
		}
		p.fetch(p.t)
		if time.Now().After(deadline) {
			p.FailNow("gave up waiting for "+what, "events: %+v", p.seen)
		}
	}
}

// await waits for the next event of an ID, which has to be of a type.
func (p *player) await(owner *cm.ID, typ cm.EventType) event {
	p.t.Helper()
	mine := func(ev event) bool { return ev.owner == owner }
	p.until(typ.String(), func() bool { return slices.ContainsFunc(p.seen, mine) })
	i := slices.IndexFunc(p.seen, mine)
	ev := p.seen[i]
	p.seen = slices.Delete(p.seen, i, i+1)
	p.Equal(typ, ev.typ, "%v: %v", ev.typ, ev.err)
	return ev
}

// resolve makes an ID that is ready to connect to a port of the peer.
func (p *player) resolve(ps cm.PortSpace, port uint16, ackTimeout uint8) *cm.ID {
	p.t.Helper()
	id, err := p.events.NewID(ps)
	p.NoError(err)
	closing(p.t, id)
	p.NoError(id.ResolveAddr(netip.AddrPort{}, withPort(p.peer, port), patience))
	p.await(id, cm.AddrResolved)
	if ackTimeout != 0 {
		p.NoError(id.SetAckTimeout(ackTimeout))
	}
	p.NoError(id.ResolveRoute(patience))
	p.await(id, cm.RouteResolved)
	return id
}

// request waits for somebody to ask for a connection, or for a queue pair.
func (p *player) request(listener *cm.ID) event {
	p.t.Helper()
	ev := p.await(listener, cm.ConnectRequest)
	closing(p.t, ev.id)
	return ev
}

// requestFor waits for a request for a connection whose private data begins with a
// mark. A copy of one that was refused may come when that is over, and is a new one
// then: it is refused.
func (p *player) requestFor(mark byte) event {
	p.t.Helper()
	for {
		ev := p.request(p.connections)
		if data := ev.param.PrivateData; len(data) > 0 && data[0] == mark {
			return ev
		}
		p.NoError(ev.id.Reject(nil))
	}
}

// A queue is a completion queue, and what has come out of it.
type queue struct {
	p   *player
	cq  verbs.CQ
	wcs []verbs.WC
}

func (p *player) newQueue(depth int) *queue {
	p.t.Helper()
	cq, err := p.device.CreateCQ(&verbs.CQAttr{Depth: depth, Progress: verbs.ProgressManual, Vector: p.vector})
	p.NoError(err)
	closing(p.t, cq)
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

// take waits for n completions, which have to be of one status.
func (q *queue) take(n int, status verbs.Status) []verbs.WC {
	q.p.t.Helper()
	q.p.until("completions", func() bool { return len(q.wcs) >= n })
	got := slices.Clone(q.wcs[:n])
	q.wcs = q.wcs[n:]
	for i, wc := range got {
		q.p.Equal(status, wc.Status, "completion %d of %d is %v", i, n, wc.Status)
	}
	return got
}

// one takes one good completion.
func (q *queue) one() verbs.WC {
	q.p.t.Helper()
	return q.take(1, verbs.StatusSuccess)[0]
}
