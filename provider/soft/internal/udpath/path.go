//go:build linux

package udpath

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Config says what all UD queue pairs of a device share.
type Config struct {
	Host              *hostport.Host // host of the device
	HasLocal, HasWire bool           // paths that the device has
	Users             access.Users
	Limit             *access.UserLimit // limit of the connections of each user
	Spare             *unixsock.SpareDescriptors
	Addrs             func() ([]verbs.GID, error) // function that returns the addresses of this host
}

// both reports whether the device has both paths. A datagram from this host must then use
// the local path.
func (c *Config) both() bool { return c.HasLocal && c.HasWire }

// Sockets has what the UD queue pairs of a shard share. It belongs to the shard.
type Sockets struct {
	*Config
	shard  *qp.Shard
	queued int // bytes of datagrams that wait for a Unix socket; see maxShardQueue
}

// NewSockets returns the state of a shard without UD queue pairs.
func NewSockets(s *qp.Shard, cfg *Config) *Sockets { return &Sockets{Config: cfg, shard: s} }

// Path is the path of a UD queue pair. The address handle of each datagram selects the
// local path or the wire path. A Path belongs to the shard.
type Path struct {
	q   *qp.QP
	all *Sockets
	// number of datagrams sent so far; also the path sequence of the next datagram
	seq   uint64
	local *localPath // local path; nil if the device has only the wire path
	wire  *wirePath  // wire path; nil if the device has only the local path

	scheduled bool // true while the queue pair is in packets.Demux.due
	closed    bool // true after Detach
}

// New returns the path of a new UD queue pair. It is usable after Claim and Attach.
func New(all *Sockets, q *qp.QP) *Path { return &Path{all: all, q: q} }

// Claim implements qp.DatagramPath. It binds the socket name of a queue pair number.
func (p *Path) Claim(num uint32) (err error) {
	if p.all.HasLocal {
		p.local, err = newLocalPath(p.all, p.q, num)
	}
	return err
}

// Attach implements qp.DatagramPath.
func (p *Path) Attach() error {
	if p.all.HasWire {
		p.wire = newWirePath(p.all, p.q)
		p.wire.demux.Attach(p.q.Num(), p)
	}
	if p.local != nil {
		return p.local.attach()
	}
	return nil
}

// Ready implements qp.DatagramPath. It opens the sockets for receiving on the wire path.
func (p *Path) Ready() error {
	if p.wire == nil {
		return nil
	}
	return p.wire.listenAtAll()
}

// Transmit implements qp.Path. If the wire path has no room, SendDue sends the rest.
func (p *Path) Transmit() {
	if !p.send() && !p.scheduled {
		p.scheduled = true
		p.wire.demux.Schedule(p)
	}
	if p.wire != nil {
		p.wire.demux.Flush()
	}
}

// SendDue implements packets.QP. It sends the requests for which Transmit had no room.
func (p *Path) SendDue() (done bool) {
	done = p.closed || p.send()
	p.scheduled = !done
	return done
}

// Receive implements packets.QP; see wirePath.receive.
func (p *Path) Receive(pkt wire.Packet, from *udp.Header) { p.wire.receive(pkt, from) }

// send sends the queued requests, and completes them. It returns false if the wire path
// has no room.
func (p *Path) send() (done bool) {
	q := p.q
	for w := q.NextToSend(); w != nil; w = q.NextToSend() {
		status, room := p.sendOne(w)
		if !room {
			return false
		}
		if status != verbs.StatusSuccess {
			q.FailRequest(w, status)
			break
		}
		q.MarkSent(w, p.seq)
		p.seq++
		q.Acknowledged(p.seq)
	}
	return true
}

// sendOne sends one datagram. It returns false if the wire path has no room.
func (p *Path) sendOne(w *qp.WQE) (status verbs.Status, room bool) {
	if flaw := p.q.CheckQueuedDatagram(w); flaw != verbs.StatusSuccess {
		return flaw, true
	}
	to := w.Handle()
	if to.OverWire() {
		return p.wire.sendOne(w, to, p.seq)
	}
	return p.local.sendOne(w, to), true
}

// Acked implements qp.Path. A datagram that was sent counts as acknowledged.
func (p *Path) Acked() uint64 { return p.seq }

// ReceiveAt implements qp.DatagramPath. It passes the address to the wire path, if there
// is one.
func (p *Path) ReceiveAt(at netip.Addr) error {
	if p.wire == nil {
		return nil
	}
	return p.wire.receiveAt(at)
}

// Clear implements qp.DatagramPath. It drops and counts datagrams that wait on the local
// path.
func (p *Path) Clear() {
	if p.local != nil {
		p.local.clear()
	}
}

// Detach implements qp.Path. It closes all sockets and routes.
func (p *Path) Detach() {
	p.closed = true
	if p.local != nil {
		p.local.detach()
	}
	if p.wire != nil {
		p.wire.detach()
	}
}

var _ interface {
	qp.DatagramPath
	packets.QP
} = (*Path)(nil)
