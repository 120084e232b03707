//go:build linux

package soft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Datagrams on the local path go over Unix datagram sockets, one for each UD
// queue pair, named after its number in the abstract namespace. The kernel
// vouches for the sender's name, and so for its queue pair number.
//
//	0   Q_Key (32) | flags (8) | reserved (24) | immediate data (32)
//	12  source GID (128) | destination GID (128)
//	44  payload
const (
	datagramHeader = 44
	datagramMTU    = 4096
	datagramImm    = 1 // flags
	datagramSol    = 2
	datagramBudget = 64 // messages taken in one look
)

// ah implements verbs.AH.
type ah struct {
	pd     *pd
	attr   verbs.AHAttr
	closed bool
}

func (p *pd) CreateAH(attr *verbs.AHAttr) (verbs.AH, error) {
	if p.closed.Load() {
		return nil, verbs.Wrap("create AH", verbs.ErrClosed)
	}
	if err := p.dev.checkVector(attr); err != nil {
		return nil, verbs.Wrap("create AH", err)
	}
	if addr := attr.DestGID.Addr(); !onThisHost(addr) {
		return nil, verbs.Wrap("create AH", &verbs.FeatureError{Feature: "datagrams to " + addr.String(), Reason: errNotThisHost})
	}
	p.users.Add(1)
	return &ah{pd: p, attr: *attr}, nil
}

// checkVector checks what an address vector says of this side.
func (d *device) checkVector(attr *verbs.AHAttr) error {
	if attr.SourceIndex == 0 && attr.Port == 1 && attr.FlowLabel == 0 {
		return nil // the usual case, without asking for the host's addresses
	}
	port, err := d.Port(attr.Port)
	if err != nil {
		return err
	}
	if attr.SourceIndex < 0 || attr.SourceIndex >= len(port.GIDs) {
		return &verbs.ParamError{Field: "source GID index", Value: int64(attr.SourceIndex), Limit: int64(len(port.GIDs) - 1), Reason: "out of range"}
	}
	if attr.FlowLabel >= 1<<20 {
		return &verbs.ParamError{Field: "flow label", Value: int64(attr.FlowLabel), Limit: 1<<20 - 1}
	}
	return nil
}

var errNotThisHost = errors.New("not an address of this host, and the wire path is not part of this version")

func (a *ah) Attr() verbs.AHAttr { return a.attr }

func (a *ah) Close() error {
	if !a.closed {
		a.closed = true
		a.pd.users.Add(-1)
	}
	return nil
}

// checkDatagram checks what only UD asks of a request.
func checkDatagram(wr *verbs.SendWR) error {
	if wr.Opcode != verbs.OpSend && wr.Opcode != verbs.OpSendImm {
		return &verbs.ParamError{Field: "opcode", Value: int64(wr.Opcode), Reason: "UD queue pairs only send"}
	}
	if a, ok := wr.AH.(*ah); !ok || a.closed {
		return &verbs.ParamError{Field: "address handle", Reason: "missing, closed, or of another provider"}
	}
	if wr.RemoteQPN > 0xffffff {
		return &verbs.ParamError{Field: "remote QP number", Value: int64(wr.RemoteQPN), Limit: 0xffffff}
	}
	return nil
}

// datagramPort is the path of a UD queue pair. It belongs to the shard.
type datagramPort struct {
	q   *qp
	fd  int
	seq uint64
	out []byte
	in  []byte

	attached, closed bool
}

const datagramName = "\x00rdmaloop/1/qp/"

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

func (p *datagramPort) resend()  {}
func (p *datagramPort) silence() {}

// detach: see path.
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

// transmit sends what is queued. A datagram that can not be delivered is lost,
// as on a wire; it completes all the same.
func (p *datagramPort) transmit() {
	q := p.q
	for w := q.toSend(); w != nil; w = q.toSend() {
		if status := p.flaw(w); status != verbs.StatusSuccess {
			q.spoil(w, status)
			return
		}
		p.sendOne(w)
		q.sent(w, p.seq)
		p.seq++
		q.acknowledged(p.seq)
	}
}

// flaw finds what is wrong with a request: more than one packet's payload (IBTA
// vol. 1, 9.8.2.2), a handle of another domain (10.2.2.2).
func (p *datagramPort) flaw(w *wqe) verbs.Status {
	switch {
	case w.total > datagramMTU:
		return verbs.StatusLocLenErr
	case w.to.(*ah).pd != p.q.pd:
		return verbs.StatusLocQPOpErr
	}
	return verbs.StatusSuccess
}

func (p *datagramPort) sendOne(w *wqe) {
	to := w.to.(*ah)
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
		return
	}
	_ = unix.Sendto(p.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL,
		&unix.SockaddrUnix{Name: datagramName + strconv.FormatUint(uint64(w.toQPN), 10)})
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
	// The kernel's copy of an abstract name begins with '@' in x/sys.
	digits, ok := strings.CutPrefix(strings.Replace(addr.Name, "@", "\x00", 1), datagramName)
	if !ok {
		return 0, false
	}
	num, err := strconv.ParseUint(digits, 10, 24)
	return uint32(num), err == nil
}

// receive delivers one datagram, or drops it: with a wrong Q_Key (IBTA vol. 1,
// 9.6.1.4.2), without a buffer, or with one that is too small.
func (p *datagramPort) receive(b []byte, src uint32) {
	q := p.q
	if !q.serves() {
		return
	}
	if binary.BigEndian.Uint32(b) != q.attr.QKey {
		return
	}
	var header [verbs.GRHSize]byte
	payload := b[datagramHeader:]
	routingHeader(&header, b[12:28], b[28:44], len(payload))
	total := uint64(len(header) + len(payload))
	if next := q.receives().peek(); next == nil || next.capacity() < total || !q.popReceive(&q.current) {
		return
	}
	if !p.scatter(header[:], 0) || !p.scatter(payload, uint32(len(header))) {
		q.receiveDone(&verbs.WC{Status: verbs.StatusLocProtErr}, true)
		return
	}
	wc := verbs.WC{Opcode: verbs.WCRecv, Flags: verbs.WCWithGRH, ByteLen: uint32(total), SrcQPN: src}
	if b[4]&datagramImm != 0 {
		wc.Flags |= verbs.WCWithImm
		wc.Imm = binary.BigEndian.Uint32(b[8:])
	}
	q.receiveDone(&wc, b[4]&datagramSol != 0)
}

func (p *datagramPort) scatter(data []byte, offset uint32) bool {
	return p.q.eachPiece(p.q.current.sges, offset, uint32(len(data)), verbs.AccessLocalWrite, func(piece []byte) {
		n := copy(piece, data)
		data = data[n:]
	})
}

// routingHeader writes what a receiver finds in front of the payload: an IPv6
// header, or 20 zero bytes and an IPv4 header (IBTA annex A17.4.3).
func routingHeader(dst *[verbs.GRHSize]byte, src, dest []byte, payload int) {
	from, to := netip.AddrFrom16([16]byte(src)).Unmap(), netip.AddrFrom16([16]byte(dest)).Unmap()
	const transport = 8 + 12 + 8 + 4 // UDP, BTH, DETH, ICRC
	length := transport + payload + (-payload & 3)
	if from.Is4() && to.Is4() {
		h := dst[20:]
		h[0] = 0x45
		binary.BigEndian.PutUint16(h[2:], uint16(20+length))
		h[6] = 0x40 // DF
		h[8] = 64
		h[9] = unix.IPPROTO_UDP
		copy(h[12:], from.AsSlice())
		copy(h[16:], to.AsSlice())
		binary.BigEndian.PutUint16(h[10:], ipChecksum(h))
		return
	}
	dst[0] = 0x60
	binary.BigEndian.PutUint16(dst[4:], uint16(length))
	dst[6] = unix.IPPROTO_UDP
	dst[7] = 64
	copy(dst[8:], src)
	copy(dst[24:], dest)
}

// ipChecksum is the Internet checksum of a header whose checksum field is zero
// (RFC 1071).
func ipChecksum(h []byte) uint16 {
	var sum uint32
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
