//go:build linux

package soft

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Datagrams on the local path go over Unix datagram sockets, one for each UD
// queue pair, named after its number in the abstract namespace. The sender's
// number is what its socket's name says: a hint, as it is on a wire.
//
//	0   Q_Key (32) | flags (8) | reserved (24) | immediate data (32)
//	12  source GID (128) | destination GID (128)
//	44  payload
const (
	datagramHeader = 44
	datagramMTU    = 4096
	datagramImm    = 1 // flags
	datagramSol    = 2
	datagramHops   = 64 // the hop limit that receivers are told
	datagramBudget = 64 // messages taken in one look
)

// datagramPort is the local path of a UD queue pair. It belongs to the shard.
type datagramPort struct {
	q   *qp
	fd  int
	out []byte
	in  []byte

	attached, closed bool
}

const datagramName = "@rdmaloop/1/qp/" // '@' stands for the NUL of an abstract name

// newDatagramPort binds the socket of a queue pair number; it fails when
// another queue pair of this host has the number.
func newDatagramPort(q *qp, num uint32) (*datagramPort, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: datagramName + strconv.FormatUint(uint64(num), 10)}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("queue pair number %#x: %w", num, err)
	}
	return &datagramPort{q: q, fd: fd, out: make([]byte, datagramHeader+datagramMTU), in: make([]byte, datagramHeader+datagramMTU+1)}, nil
}

// attach lets the shard take what arrives.
func (p *datagramPort) attach() error {
	if err := p.q.shard.watch(p.fd, unix.EPOLLIN, p); err != nil {
		return err
	}
	p.q.shard.datagrams++
	p.attached = true
	return nil
}

// detach gives up the socket. What is queued at it is lost.
func (p *datagramPort) detach() {
	if p.closed {
		return
	}
	p.closed = true
	if p.attached {
		p.q.shard.unwatch(p.fd)
		p.q.shard.datagrams--
	}
	_ = unix.Close(p.fd)
}

// sendOne sends a datagram. One that can not be delivered is lost, as on a wire.
func (p *datagramPort) sendOne(w *wqe, to *ah) verbs.Status {
	b := p.out[:datagramHeader+int(w.total)]
	clear(b[:datagramHeader])
	binary.BigEndian.PutUint32(b, w.toQKey)
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
	_ = unix.Sendto(p.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL,
		&unix.SockaddrUnix{Name: datagramName + strconv.FormatUint(uint64(w.toQPN), 10)})
	return verbs.StatusSuccess
}

// sourceGID is the sender's address towards a destination on this host: a host
// reaches each of its addresses from that same address.
func sourceGID(dst verbs.GID) verbs.GID { return dst }

// onReady takes what has arrived.
func (p *datagramPort) onReady(int, uint32) {
	for range datagramBudget {
		n, from, err := unix.Recvfrom(p.fd, p.in, unix.MSG_DONTWAIT)
		if err != nil {
			return // EAGAIN: nothing more
		}
		if src, ok := senderQPN(from); ok && n >= datagramHeader && n < len(p.in) {
			p.receive(p.in[:n], src)
		}
	}
}

// senderQPN reads the queue pair number off the sender's name.
func senderQPN(from unix.Sockaddr) (uint32, bool) {
	addr, ok := from.(*unix.SockaddrUnix)
	if !ok {
		return 0, false
	}
	digits, ok := strings.CutPrefix(addr.Name, datagramName)
	if !ok {
		return 0, false
	}
	num, err := strconv.ParseUint(digits, 10, 24)
	return uint32(num), err == nil && strconv.FormatUint(num, 10) == digits
}

// receive takes one datagram.
func (p *datagramPort) receive(b []byte, src uint32) {
	d := datagram{
		qkey: binary.BigEndian.Uint32(b), src: src,
		hasImm: b[4]&datagramImm != 0, solicited: b[4]&datagramSol != 0, imm: binary.BigEndian.Uint32(b[8:]),
		payload: b[datagramHeader:],
	}
	from, to := verbs.GID(b[12:28]), verbs.GID(b[28:44])
	d.header.Set(from.Addr(), to.Addr(), wire.UDSendOnly.Size(len(d.payload)), 0, datagramHops)
	p.q.deliverDatagram(&d)
}
