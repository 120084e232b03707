//go:build linux

package udpath

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Datagrams on the local path go over Unix sockets of type SOCK_SEQPACKET. Each UD queue
// pair listens on a name with its number, and connects to each destination. SO_PEERCRED
// returns the user at the other end of a connection. One packet is one datagram:
//
//	0   Q_Key (32) | flags (8) | source queue pair number (24) | immediate data (32)
//	12  source GID (128) | destination GID (128)
//	44  payload
//
// The sender chooses the queue pair number and the GID itself, as on a network.
const (
	datagramHeader = 44
	datagramImm    = 1  // flag of a datagram with immediate data
	datagramSol    = 2  // flag of a datagram that is a solicited event
	datagramHops   = 64 // hop limit in the GRH of received datagrams
)

// localState is the state of a localPath.
type localState uint8

const (
	// localBound: the socket name is bound, so no other queue pair of this host gets the
	// same number. Connections wait in the backlog. A new localPath is in this state.
	localBound localState = iota
	// localAttached: the shard accepts connections and reads datagrams, because the queue
	// pair is complete.
	localAttached
	// localClosed: all sockets are closed, and the name is free. This is the last state.
	localClosed
)

// A localPath is the local path of a UD queue pair. It belongs to the shard.
type localPath struct {
	all      *Sockets
	shard    *qp.Shard
	q        *qp.QP
	state    localState
	listener int    // descriptor of the listening socket
	out      []byte // buffer for the packet to be sent
	in       []byte // buffer for received packets, one byte longer than a valid packet

	// PSNs of the next datagrams that are recorded as sent and as received
	sentPSN, receivedPSN psn.Value

	dests   map[uint32]*localDest // destinations, by queue pair number
	sources map[int]*localSource  // connections from other queue pairs, by descriptor
	uses    uint64                // number of sends and receives so far
	// timer that runs while no descriptor is free for new connections
	acceptTimer qp.Timer
}

// datagramBacklog is how many connections may wait to be accepted. If it is reached,
// senders try again later. Arbitrary.
const datagramBacklog = 128

// datagramName returns the abstract socket name of a UD queue pair, for example
// "@rdmaloop/1/qp/4711". The parameter num is the queue pair's number.
func datagramName(host *hostport.Host, num uint32) string {
	return host.NamePrefix() + "qp/" + strconv.FormatUint(uint64(num), 10)
}

// newLocalPath makes the local path of the UD queue pair num. It fails if the number is
// taken on this host.
func newLocalPath(all *Sockets, q *qp.QP, num uint32) (*localPath, error) {
	fd, err := unixsock.Bind(datagramName(all.Host, num))
	if err != nil {
		return nil, fmt.Errorf("queue pair number %#x: %w", num, err)
	}
	all.Host.Opened(fd)
	if err := unix.Listen(fd, datagramBacklog); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	p := &localPath{
		all: all, shard: all.shard, q: q, state: localBound, listener: fd,
		out: make([]byte, datagramHeader+qp.DatagramMTU), in: make([]byte, datagramHeader+qp.DatagramMTU+1),
		dests: make(map[uint32]*localDest), sources: make(map[int]*localSource),
	}
	p.acceptTimer.Init(q.Shard, timerheap.Func(p.acceptAgain))
	return p, nil
}

func (p *localPath) attach() error {
	if err := p.shard.Watch(p.listener, unix.EPOLLIN, p); err != nil {
		return err
	}
	p.shard.AddEpollOnly(1)
	p.all.Spare.AddListener()
	p.state = localAttached
	return nil
}

// detach closes all sockets. It drops and counts unsent and unread datagrams.
func (p *localPath) detach() {
	was := p.state
	if was == localClosed {
		return
	}
	p.state = localClosed
	p.clear()
	if was == localAttached {
		// The connections in the backlog are accepted first. Otherwise their datagrams
		// would not be read.
		_ = unix.Shutdown(p.listener, unix.SHUT_RD)
		for p.accept() {
		}
		p.shard.Unwatch(p.listener)
		p.shard.AddEpollOnly(-1)
		p.all.Spare.RemoveListener()
	}
	p.acceptTimer.Stop()
	for _, src := range p.sources {
		src.finish()
	}
	_ = unix.Close(p.listener)
}

// clear drops and counts the datagrams that wait to be sent.
func (p *localPath) clear() {
	for _, d := range p.dests {
		d.remove()
	}
}

// countDropped counts n dropped datagrams. Their requests complete with success, because
// datagrams may be lost.
func (p *localPath) countDropped(n uint64) { p.q.Counts().Add(counters.DatagramUnsent, n) }

// sendOne sends the datagram of the request w. If the receiver's socket has no room, the
// datagram is queued or dropped. The request succeeds even if the datagram is dropped.
func (p *localPath) sendOne(w *qp.WQE, to *qp.AH) verbs.Status {
	b := p.out[:datagramHeader+int(w.Total)]
	clear(b[:datagramHeader])
	binary.BigEndian.PutUint32(b, w.UD.QKey)
	binary.BigEndian.PutUint32(b[4:], p.q.Num())
	if w.Op == verbs.OpSendImm {
		b[4] |= datagramImm
		binary.BigEndian.PutUint32(b[8:], w.Imm)
	}
	if w.Flags&verbs.SendSolicited != 0 {
		b[4] |= datagramSol
	}
	copy(b[12:], to.Source[:])
	dest := to.Attr().DestGID
	copy(b[28:], dest[:])
	if !p.q.Gather(b[datagramHeader:], w, 0) {
		return verbs.StatusLocProtErr
	}
	if d := p.dest(w.UD.QPN); d != nil {
		if p.shard.Tap != nil {
			p.record(capture.Outbound, b, w.UD.QPN, &p.sentPSN)
		}
		d.send(b)
	} else {
		p.countDropped(1)
	}
	return verbs.StatusSuccess
}

// receive delivers one packet of the Unix socket. It returns false if the length is
// invalid.
func (p *localPath) receive(b []byte) bool {
	if len(b) < datagramHeader || len(b) > datagramHeader+qp.DatagramMTU {
		return false
	}
	if p.shard.Tap != nil {
		p.record(capture.Inbound, b, p.q.Num(), &p.receivedPSN)
	}
	d := qp.Datagram{
		QKey: binary.BigEndian.Uint32(b), Src: binary.BigEndian.Uint32(b[4:]) & verbs.MaxQPNum,
		HasImm: b[4]&datagramImm != 0, Solicited: b[4]&datagramSol != 0, Imm: binary.BigEndian.Uint32(b[8:]),
		Payload: b[datagramHeader:],
	}
	from, to := verbs.GID(b[12:28]), verbs.GID(b[28:44])
	d.Header.Set(from.Addr(), to.Addr(), wire.UDSendOnly.Size(len(d.Payload)), 0, datagramHops)
	p.q.DeliverDatagram(&d)
	return true
}

// record passes a datagram to the capture of the device, as the packet that it would have been.
// The parameter b is the packet of the Unix socket, dst the number of the receiver's queue pair,
// and num the number of the datagram.
func (p *localPath) record(d capture.Direction, b []byte, dst uint32, num *psn.Value) {
	op, payload := wire.UDSendOnly, b[datagramHeader:]
	if b[4]&datagramImm != 0 {
		op = wire.UDSendOnlyImm
	}
	packet := wire.Build(p.shard.Tap.Scratch(), op, len(payload))
	packet.BTH().SetDestQP(dst)
	packet.BTH().SetPSN(*num)
	packet.BTH().SetSolicited(b[4]&datagramSol != 0)
	packet.DETH().Set(binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])&verbs.MaxQPNum)
	if h := packet.ImmDt(); h != nil {
		h.Set(binary.BigEndian.Uint32(b[8:]))
	}
	copy(packet.Payload(), payload)
	*num = num.Add(1)
	p.shard.Tap.LocalPacket(d, &capture.Header{
		From: netip.AddrPortFrom(verbs.GID(b[12:28]).Addr(), wire.UDPPort), To: netip.AddrPortFrom(verbs.GID(b[28:44]).Addr(), wire.UDPPort),
		HopLimit: datagramHops,
	}, packet)
}
