//go:build linux

package soft

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// receiveBudget is how many slots one link consumes in one drive.
	receiveBudget = 64
	// ackEvery is after how many drives acknowledgements are looked at that
	// nobody waits for.
	ackEvery = 64
)

// link is the local path: it carries the requests and responses of one queue
// pair through shared memory. The control block ctl is written by this side,
// peer by the other, which may be hostile.
type link struct {
	q    *qp
	s    *shard
	end  *localEnd
	ctl  *control
	peer *control

	out  producer // own requests
	in   consumer // the peer's requests
	rout producer // own responses
	rin  consumer // the peer's responses

	seq       uint64 // slots of out published, which path sequences count
	acked     uint64 // slots of out given back
	ackSeen   uint64 // the peer's ack as last handled
	owed      uint32 // slots of in consumed and not yet acknowledged
	ackDue    bool   // the peer waits for the acknowledgement
	naks      uint32 // negative answers given
	syndrome  uint8  // of the last one
	congested bool   // there was no room for a response
	stalled   bool   // the slot at hand was answered with RNR NAK
	repeats   uint32 // the peer's resend count at that time
	unrung    bool   // slots were published since the peer's bell was considered
	parked    wakeLevel
	unread    int      // rings that may lie on the bell
	list      *[]*link // of the shard, that it is on; nil when it is left to its bell
	index     int      // in that
	lastWork  uint32

	read    remoteWindow // what is left of the READ whose response is under way
	reading bool
}

// newLink attaches a queue pair to its end of a connection.
func newLink(q *qp, end *localEnd) (*link, error) {
	l := &link{q: q, s: q.shard, end: end}
	var out, rout, in, rin ring
	l.ctl, out, rout = end.seg.carve(end.side)
	l.peer, in, rin = end.seg.carve(1 - end.side)
	l.out, l.rout = newProducer(out), newProducer(rout)
	l.in, l.rin = consumer{ring: in}, consumer{ring: rin}
	if err := l.s.watch(end.bell, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET, l); err != nil {
		return nil, err
	}
	l.ctl.state.Store(sideActive)
	l.s.heat(l)
	return l, nil
}

// onReady is called when the bell was rung, or hung up.
func (l *link) onReady(_ int, events uint32) {
	l.parked = wakeNone
	if l.alive() {
		l.s.heat(l)
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		l.hangUp()
	}
}

// alive reports whether the queue pair serves and sends.
func (l *link) alive() bool { return l.q.serves() }

// poll does what there is to do, and reports whether there was anything.
func (l *link) poll() bool {
	if l.s.drives-l.lastWork > dozeAfter && l.rests() {
		l.s.move(l, &l.s.dozing)
		return false
	}
	work := l.receive()
	if l.q.reads > 0 {
		work = l.takeResponses() || work
	}
	q := l.q
	if q.wantAcks > 0 || q.sq.next != q.sq.tail || l.s.drives%ackEvery == 0 {
		work = l.collect() || work
	}
	if work {
		if q.sq.next != q.sq.tail && l.alive() {
			l.transmit() // a fence, the depth or the room may have held it back
		}
		l.lastWork = l.s.drives
		if l.parked != wakeNone {
			l.parked = wakeNone
			l.ctl.parked.Store(wakeNone)
		}
	} else if l.owed > 0 {
		l.acknowledge()
	}
	return work
}

// rests reports whether there is nothing to do, with a few loads. While requests
// are unanswered it does not, for answers that nobody waits for come silently.
func (l *link) rests() bool {
	sq := &l.q.sq
	return !l.in.ready() && l.owed == 0 && sq.done == sq.tail && !l.reading
}

// park asks the peer to ring the bell, and reports whether it is asleep then:
// false when something came in between, which leaves the link to be polled.
func (l *link) park() bool {
	want := wakeSlots
	if l.q.wantAcks > 0 || l.q.sq.next != l.q.sq.tail || l.q.state == verbs.StateSQD {
		want = wakeAll
	}
	if l.owed > 0 {
		l.acknowledge()
	}
	if l.parked == want {
		return true
	}
	l.expectRing()
	l.ctl.parked.Store(want)
	// Both sides store first and load then, so that one of them sees the other.
	if l.missed(want) {
		l.ctl.parked.Store(wakeNone)
		l.parked = wakeNone
		return false
	}
	l.parked = want
	l.watchSilence()
	return true
}

// expectRing makes sure that there is room for one more ring on the bell. It is
// watched edge-triggered, and each ring is an edge, so that nothing has to be read
// when it is rung; but what is never read fills up. There is at most one ring for
// each time of parking.
func (l *link) expectRing() {
	if l.unread++; l.unread == len(l.s.rings) {
		l.unread = 0
		silenceBell(l.end.bell, l.s.rings[:])
	}
}

// missed reports whether something happened that the peer may not have rung
// the bell for.
func (l *link) missed(want wakeLevel) bool {
	ack := l.peer.ack.Load()
	switch {
	case l.stalled:
		if l.peer.resend.Load() != l.repeats {
			return true
		}
	case l.congested:
		if l.peer.responses.Load() != l.rout.freed {
			return true
		}
	case l.in.ready():
		return true
	}
	return l.q.reads > 0 && l.rin.ready() ||
		want == wakeAll && ack != l.ackSeen || ack>>40 != l.ackSeen>>40
}

// wake rings the peer's bell if it is parked for kind.
func (l *link) wake(kind wakeLevel) {
	if l.peer.parked.Load() >= kind && l.peer.parked.Swap(wakeNone) != wakeNone {
		ringBell(l.end.bell)
	}
}

// silence: see path. The peer finds out when it waits for an answer.
func (l *link) silence() {
	l.acknowledge()
	l.ctl.state.Store(sideSilent)
	l.wake(wakeSlots)
	l.s.move(l, nil)
}

// detach: see path.
func (l *link) detach() {
	l.s.move(l, nil)
	l.s.unwatch(l.end.bell)
	l.q.dev.dropEnd(l.q.num, l.q.attr.DestQPN)
	l.end.release()
}

// hangUp: the other end of the bell is closed, because the peer has left in
// order, or because its process is gone. What it had sent completely still counts,
// and no more than its ring holds. A peer that left in order is silent; what it
// owes fails when the retries would have ended, or when connection management
// hears of it.
func (l *link) hangUp() {
	l.s.unwatch(l.end.bell)
	for range len(l.in.slots)/receiveBudget + 1 {
		if !l.receive() {
			break
		}
	}
	l.collect()
	if l.alive() && l.peer.state.Load() != sideSilent {
		l.q.failOldest(verbs.StatusRetryExcErr)
	}
}

// watchSilence gives a peer that does not answer the time that the retries
// would have taken.
func (l *link) watchSilence() {
	if !l.q.sq.outstanding() {
		return
	}
	if l.peer.state.Load() != sideActive {
		l.q.unanswered()
	} else {
		l.q.silenceTimer.stop()
	}
}

// violation: the peer wrote what can not be. It costs this connection.
func (l *link) violation() {
	l.q.dev.async.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: l.q})
	l.q.failOldest(verbs.StatusBadRespErr)
}
