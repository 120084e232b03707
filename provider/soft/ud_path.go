//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// udPath is the path of a UD queue pair: which way a datagram goes, its
// address handle says. It belongs to the shard.
type udPath struct {
	q     *qp
	seq   uint64   // datagrams sent
	local *udLocal // to peers on this host; nil on a device that speaks RoCEv2 only
	wire  *udWire  // to others; nil on a device that keeps to this host

	scheduled, closed bool
}

// claim makes the number the queue pair's on the whole host, where peers use it to
// find the queue pair.
func (p *udPath) claim(num uint32) (err error) {
	if p.q.dev.cfg.Path != PathWire {
		p.local, err = newUDLocal(p.q, num)
	}
	return err
}

// attach lets the shard take what arrives.
func (p *udPath) attach() error {
	if p.q.dev.cfg.Path != PathLocal {
		p.wire = newUDWire(p.q)
		p.wire.demux.attach(p.q.num, p)
	}
	if p.local != nil {
		return p.local.attach()
	}
	return nil
}

// ready: the queue pair goes to RTR.
func (p *udPath) ready() error {
	if p.wire == nil {
		return nil
	}
	return p.wire.listenAtAll()
}

// transmit: see path.
func (p *udPath) transmit() {
	if !p.send() && !p.scheduled {
		p.scheduled = true
		p.wire.demux.due = append(p.wire.demux.due, p)
	}
	if p.wire != nil {
		p.wire.demux.conn.flush()
	}
}

// work: see wireQP.
func (p *udPath) sendDue() (done bool) {
	done = p.closed || p.send()
	p.scheduled = !done
	return done
}

// receive: see wireQP.
func (p *udPath) receive(pkt wire.Packet, from *ipHeader) { p.wire.receive(pkt, from) }

// send sends what is queued, and reports whether there was room for it. A
// datagram completes when it is out: nobody answers.
func (p *udPath) send() (done bool) {
	q := p.q
	for w := q.nextToSend(); w != nil; w = q.nextToSend() {
		status, room := p.sendOne(w)
		if !room {
			return false
		}
		if status != verbs.StatusSuccess {
			q.failRequest(w, status)
			break
		}
		q.markSent(w, p.seq)
		p.seq++
		q.acknowledged(p.seq)
	}
	return true
}

func (p *udPath) sendOne(w *wqe) (status verbs.Status, room bool) {
	if flaw := p.q.checkQueuedDatagram(w); flaw != verbs.StatusSuccess {
		return flaw, true
	}
	to := w.to.(*ah)
	if to.overWire() {
		return p.wire.sendOne(w, to, p.seq)
	}
	return p.local.sendOne(w, to), true
}

func (p *udPath) resend()        {}
func (p *udPath) takeAcks() bool { return false }
func (p *udPath) abort(outcome)  {}

func (p *udPath) requestsPending() bool { return false }

func (p *udPath) accessSource() (accessSource, bool) { return accessSource{}, false }

func (p *udPath) stopResponding() {}
func (p *udPath) receivesPosted() {}

// clear drops the completed datagrams that still wait to be sent.
func (p *udPath) clear() {
	if p.local != nil {
		p.local.clear()
	}
}

// detach: see path.
func (p *udPath) detach() {
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
	wireQP
} = (*udPath)(nil)
