//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// datagramPath is the path of a UD queue pair: which way a datagram goes, its
// address handle says. It belongs to the shard.
type datagramPath struct {
	q     *qp
	seq   uint64        // datagrams sent
	local *datagramPort // to peers on this host; nil on a device that speaks RoCEv2 only
	wire  *wirePort     // to others; nil on a device that keeps to this host

	due, closed bool
}

// claim makes the number the queue pair's on the whole host, where peers use it to
// find the queue pair.
func (p *datagramPath) claim(num uint32) (err error) {
	if p.q.dev.cfg.Path != PathWire {
		p.local, err = newDatagramPort(p.q, num)
	}
	return err
}

// attach lets the shard take what arrives.
func (p *datagramPath) attach() error {
	if p.q.dev.cfg.Path != PathLocal {
		p.wire = newWirePort(p.q)
		p.wire.s.attach(p.q.num, p)
	}
	if p.local != nil {
		return p.local.attach()
	}
	return nil
}

// ready: the queue pair goes to RTR.
func (p *datagramPath) ready() error {
	if p.wire == nil {
		return nil
	}
	return p.wire.reachAll()
}

// transmit: see path.
func (p *datagramPath) transmit() {
	if !p.send() && !p.due {
		p.due = true
		p.wire.s.due = append(p.wire.s.due, p)
	}
	if p.wire != nil {
		p.wire.s.link.flush()
	}
}

// work: see wireEnd.
func (p *datagramPath) work() (done bool) {
	done = p.closed || p.send()
	p.due = !done
	return done
}

// receive: see wireEnd.
func (p *datagramPath) receive(pkt wire.Packet, from *arrival) { p.wire.receive(pkt, from) }

// send sends what is queued, and reports whether there was room for it. A
// datagram completes when it is out: nobody answers.
func (p *datagramPath) send() (done bool) {
	q := p.q
	for w := q.toSend(); w != nil; w = q.toSend() {
		status, room := p.sendOne(w)
		if !room {
			return false
		}
		if status != verbs.StatusSuccess {
			q.spoil(w, status)
			break
		}
		q.sent(w, p.seq)
		p.seq++
		q.acknowledged(p.seq)
	}
	return true
}

func (p *datagramPath) sendOne(w *wqe) (status verbs.Status, room bool) {
	if flaw := p.q.datagramFlaw(w); flaw != verbs.StatusSuccess {
		return flaw, true
	}
	to := w.to.(*ah)
	if to.overWire() {
		return p.wire.sendOne(w, to, p.seq)
	}
	return p.local.sendOne(w, to), true
}

func (p *datagramPath) resend()       {}
func (p *datagramPath) collect() bool { return false }
func (p *datagramPath) abort(answer)  {}

func (p *datagramPath) requestsWait() bool { return false }

func (p *datagramPath) source() (accessSource, bool) { return accessSource{}, false }

func (p *datagramPath) silence() {}
func (p *datagramPath) offer()   {}

// clear drops the completed datagrams that still wait to be sent.
func (p *datagramPath) clear() {
	if p.local != nil {
		p.local.clear()
	}
}

// detach: see path.
func (p *datagramPath) detach() {
	p.closed = true
	if p.local != nil {
		p.local.detach()
	}
	if p.wire != nil {
		p.wire.detach()
	}
}

var _ interface {
	path
	wireEnd
} = (*datagramPath)(nil)
