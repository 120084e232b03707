//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A udConfig says what all UD queue pairs of a device share.
type udConfig struct {
	hasLocal, hasWire bool // paths that the device has
	users             access.Users
	limit             *access.UserLimit // limit of the connections of each user
	spare             *unixsock.SpareDescriptors
	addrs             func() ([]verbs.GID, error) // function that returns the addresses of this host
}

// both reports whether the device has both paths. A datagram from this host must then use
// the local path.
func (c *udConfig) both() bool { return c.hasLocal && c.hasWire }

// udSockets has what the UD queue pairs of a shard share. It belongs to the shard.
type udSockets struct {
	*udConfig
	shard  *shard
	queued int // bytes of datagrams that wait for a Unix socket; see maxShardQueue
}

func newUDSockets(s *shard, cfg *udConfig) *udSockets { return &udSockets{udConfig: cfg, shard: s} }

// udPath is the path of a UD queue pair. The address handle of each datagram selects the
// local path or the wire path. A udPath belongs to the shard.
type udPath struct {
	q   *qp
	all *udSockets
	// number of datagrams sent so far; also the path sequence of the next datagram
	seq   uint64
	local *udLocal // local path; nil if the device has only the wire path
	wire  *udWire  // wire path; nil if the device has only the local path

	scheduled bool // true while the queue pair is in qpDemux.due
	closed    bool // true after detach()
}

func newUDPath(all *udSockets, q *qp) *udPath { return &udPath{all: all, q: q} }

// claim implements datagramPath. It binds the socket name of a queue pair number.
func (p *udPath) claim(num uint32) (err error) {
	if p.all.hasLocal {
		p.local, err = newUDLocal(p.all, p.q, num)
	}
	return err
}

// attach implements datagramPath.
func (p *udPath) attach() error {
	if p.all.hasWire {
		p.wire = newUDWire(p.all, p.q)
		p.wire.demux.attach(p.q.Num(), p)
	}
	if p.local != nil {
		return p.local.attach()
	}
	return nil
}

// ready implements datagramPath. It opens the sockets for receiving on the wire path.
func (p *udPath) ready() error {
	if p.wire == nil {
		return nil
	}
	return p.wire.listenAtAll()
}

// transmit implements path. If the wire path has no room, sendDue sends the rest.
func (p *udPath) transmit() {
	if !p.send() && !p.scheduled {
		p.scheduled = true
		p.wire.demux.schedule(p)
	}
	if p.wire != nil {
		p.wire.demux.flush()
	}
}

// sendDue implements wireQP. It sends the requests for which transmit() had no room.
func (p *udPath) sendDue() (done bool) {
	done = p.closed || p.send()
	p.scheduled = !done
	return done
}

// receive implements wireQP; see udWire.receive.
func (p *udPath) receive(pkt wire.Packet, from *udp.Header) { p.wire.receive(pkt, from) }

// send sends the queued requests, and completes them. It returns false if the wire path
// has no room.
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

// sendOne sends one datagram. It returns false if the wire path has no room.
func (p *udPath) sendOne(w *wqe) (status verbs.Status, room bool) {
	if flaw := p.q.checkQueuedDatagram(w); flaw != verbs.StatusSuccess {
		return flaw, true
	}
	to := w.handle()
	if to.overWire() {
		return p.wire.sendOne(w, to, p.seq)
	}
	return p.local.sendOne(w, to), true
}

// acked implements path. A datagram that was sent counts as acknowledged.
func (p *udPath) acked() uint64 { return p.seq }

// receiveAt implements datagramPath. It passes the address to the wire path, if there is one.
func (p *udPath) receiveAt(at netip.Addr) error {
	if p.wire == nil {
		return nil
	}
	return p.wire.receiveAt(at)
}

// clear implements datagramPath. It drops and counts datagrams that wait on the local path.
func (p *udPath) clear() {
	if p.local != nil {
		p.local.clear()
	}
}

// detach implements path. It closes all sockets and routes.
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
	datagramPath
	wireQP
} = (*udPath)(nil)
