//go:build linux

package soft

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Datagrams on the local path go over Unix sockets of type SOCK_SEQPACKET. Each UD
// queue pair listens on a name made of its number in the abstract namespace, and
// has one connection to each queue pair that it sends to. Connections are used
// because both ends learn the user of the other from the kernel (SO_PEERCRED), and
// because the kernel says when there is room for more (EPOLLOUT). A datagram socket
// does neither towards the sender. One packet is one datagram:
//
//	0   Q_Key (32) | flags (8) | source queue pair number (24) | immediate data (32)
//	12  source GID (128) | destination GID (128)
//	44  payload
//
// The user of the sender is certain. Its queue pair number and GID are what it
// claims, as they are on a wire.
const (
	datagramHeader = 44
	datagramMTU    = 4096
	datagramImm    = 1 // flags
	datagramSol    = 2
	datagramHops   = 64 // the hop limit that receivers are told
)

// datagramPort is the local path of a UD queue pair. It belongs to the shard.
type datagramPort struct {
	q        *qp
	listener int
	out      []byte
	in       []byte

	dests       map[uint32]*datagramDest // connections to others, by queue pair number
	sources     map[int]*datagramSource  // connections from others, by descriptor
	uses        uint64                   // sends and receives so far: the clock of lastUse
	acceptTimer timer                    // runs while there are no descriptors to accept with

	attached, closed bool
}

const datagramName = "@rdmaloop/1/qp/" // '@' stands for the NUL of an abstract name

// datagramBacklog is how many connections wait until the queue pair's owner takes
// them. A sender that finds no place tries again. The number is arbitrary.
const datagramBacklog = 128

func datagramSpot(num uint32) string { return datagramName + strconv.FormatUint(uint64(num), 10) }

// newDatagramPort takes the name of a queue pair number; it fails when another
// queue pair of this host has the number.
func newDatagramPort(q *qp, num uint32) (*datagramPort, error) {
	fd, err := bindSocket(datagramSpot(num))
	if err != nil {
		return nil, fmt.Errorf("queue pair number %#x: %w", num, err)
	}
	if err := unix.Listen(fd, datagramBacklog); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	p := &datagramPort{
		q: q, listener: fd,
		out: make([]byte, datagramHeader+datagramMTU), in: make([]byte, datagramHeader+datagramMTU+1),
		dests: make(map[uint32]*datagramDest), sources: make(map[int]*datagramSource),
	}
	p.acceptTimer.init(q.shard, p.acceptAgain)
	return p, nil
}

// attach lets the shard take what arrives.
func (p *datagramPort) attach() error {
	if err := p.q.shard.watch(p.listener, unix.EPOLLIN, p); err != nil {
		return err
	}
	p.q.shard.datagrams++
	p.attached = true
	return nil
}

// detach closes all sockets. Datagrams that still wait to be sent, and those that
// arrived and were not read, are dropped and counted.
func (p *datagramPort) detach() {
	if p.closed {
		return
	}
	p.closed = true
	p.clear()
	if p.attached {
		_ = unix.Shutdown(p.listener, unix.SHUT_RD) // nobody comes in addition
		for p.accept() {
		}
		p.q.shard.unwatch(p.listener)
		p.q.shard.datagrams--
	}
	p.acceptTimer.stop()
	for _, src := range p.sources {
		src.finish()
	}
	_ = unix.Close(p.listener)
}

// clear drops and counts the datagrams that wait to be sent.
func (p *datagramPort) clear() {
	for _, d := range p.dests {
		d.remove()
	}
}

// drop counts a datagram that has completed, or will, and is not sent.
func (p *datagramPort) drop(n uint64) { p.q.shard.counts.add(datagramUnsent, n) }

// sendOne sends a datagram, or queues it until the receiver's socket has room. It
// is dropped and counted where there is no such receiver and where the queue is
// full: the sender of a datagram does not learn whether it arrives.
func (p *datagramPort) sendOne(w *wqe, to *ah) verbs.Status {
	b := p.out[:datagramHeader+int(w.total)]
	clear(b[:datagramHeader])
	binary.BigEndian.PutUint32(b, w.toQKey)
	binary.BigEndian.PutUint32(b[4:], p.q.num)
	if w.op == verbs.OpSendImm {
		b[4] |= datagramImm
		binary.BigEndian.PutUint32(b[8:], w.imm)
	}
	if w.flags&verbs.SendSolicited != 0 {
		b[4] |= datagramSol
	}
	src := sourceGID(to.attr.DestGID)
	copy(b[12:], src[:])
	copy(b[28:], to.attr.DestGID[:])
	if !p.q.gather(b[datagramHeader:], w, 0) {
		return verbs.StatusLocProtErr
	}
	if d := p.dest(w.toQPN); d != nil {
		d.send(b)
	} else {
		p.drop(1)
	}
	return verbs.StatusSuccess
}

// sourceGID is the sender's address towards a destination on this host: a host
// reaches each of its addresses from that same address.
func sourceGID(dst verbs.GID) verbs.GID { return dst }

// receive takes one datagram, and reports whether it was one.
func (p *datagramPort) receive(b []byte) bool {
	if len(b) < datagramHeader || len(b) > datagramHeader+datagramMTU {
		return false
	}
	d := datagram{
		qkey: binary.BigEndian.Uint32(b), src: binary.BigEndian.Uint32(b[4:]) & max24,
		hasImm: b[4]&datagramImm != 0, solicited: b[4]&datagramSol != 0, imm: binary.BigEndian.Uint32(b[8:]),
		payload: b[datagramHeader:],
	}
	from, to := verbs.GID(b[12:28]), verbs.GID(b[28:44])
	d.header.Set(from.Addr(), to.Addr(), wire.UDSendOnly.Size(len(d.payload)), 0, datagramHops)
	p.q.deliverDatagram(&d)
	return true
}
