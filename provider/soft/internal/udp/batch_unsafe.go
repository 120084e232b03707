//go:build linux

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsg is struct mmsghdr of recvmmsg(2).
type mmsg struct {
	header unix.Msghdr
	length uint32
}

// A rawAddr is memory for a socket address of IPv4 or IPv6.
type rawAddr unix.RawSockaddrInet6

// A batch has the messages and buffers for one call of recvmmsg(2) or sendmmsg(2). It
// must not be copied. Only one goroutine at a time may use it.
type batch struct {
	msgs         []mmsg
	iovecs       []unix.Iovec
	buffers      [][]byte // buffer of each message; nil until it is needed
	size         int      // size of a buffer in bytes
	addrs        []rawAddr
	control      []cmsgs
	wantsControl bool // true if receive() reads control messages
}

// cmsgs are the control messages of one message (cmsg(3)): UDP_SEGMENT or UDP_GRO, the
// traffic class, the hop limit, and in a received message the time, which is as long as two
// of the others.
type cmsgs struct {
	list [5]cmsg
	n    int
}

type cmsg struct {
	header unix.Cmsghdr
	// Value in the byte order of the machine, padded to the alignment of cmsg(3).
	value [unsafe.Sizeof(uintptr(0))]byte
}

// next adds a control message with a value of the given size in bytes, and returns the
// value's memory.
func (c *cmsgs) next(level, option int32, size int) []byte {
	m := &c.list[c.n]
	c.n++
	m.header = unix.Cmsghdr{Level: level, Type: option}
	m.header.SetLen(unix.CmsgLen(size))
	return m.value[:]
}

// addSegment makes the kernel cut the message into datagrams of the given size in bytes.
func (c *cmsgs) addSegment(size int) {
	binary.NativeEndian.PutUint16(c.next(unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2), uint16(size))
}

// addHeader sets the traffic class and the hop limit of a destination.
func (c *cmsgs) addHeader(h *destHeader) {
	level, class, hops := int32(unix.IPPROTO_IP), int32(unix.IP_TOS), int32(unix.IP_TTL)
	if h.remote.Is6() {
		level, class, hops = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT
	}
	if h.trafficClass != 0 {
		binary.NativeEndian.PutUint32(c.next(level, class, 4), uint32(h.trafficClass))
	}
	if h.hopLimit != 0 && h.hopLimit != DefaultHopLimit {
		binary.NativeEndian.PutUint32(c.next(level, hops, 4), uint32(h.hopLimit))
	}
}

// newBatch returns a batch with n messages and n buffers. The parameter size is the size
// of a buffer in bytes.
func newBatch(n, size int) *batch {
	return &batch{
		msgs: make([]mmsg, n), iovecs: make([]unix.Iovec, n), buffers: make([][]byte, n), size: size,
		addrs: make([]rawAddr, n), control: make([]cmsgs, n),
	}
}

// buffer returns buffer i. It allocates the buffer at the first call.
func (b *batch) buffer(i int) []byte {
	if b.buffers[i] == nil {
		b.buffers[i] = make([]byte, b.size)
		b.iovecs[i].Base = &b.buffers[i][0]
		b.iovecs[i].SetLen(b.size)
	}
	return b.buffers[i]
}

// prepareReceive makes the next call of receive() read datagram i into buffer i.
func (b *batch) prepareReceive(i int) {
	h := &b.msgs[i].header
	h.Name, h.Namelen = (*byte)(unsafe.Pointer(&b.addrs[i])), uint32(unsafe.Sizeof(b.addrs[i]))
	h.Iov = &b.iovecs[i]
	h.SetIovlen(1)
	if b.wantsControl {
		h.Control = (*byte)(unsafe.Pointer(&b.control[i].list))
		h.SetControllen(int(unsafe.Sizeof(b.control[i].list)))
	}
}

// controlFields has the values of the control messages of a received datagram.
type controlFields struct {
	class, hops uint8 // traffic class and hop limit of the IP header
	segment     int   // length in bytes of merged packets, or 0 if the datagram is one packet
	time        int64 // Header.Time
}

// fields returns the values of the control messages of datagram i. It returns the
// default for a value that the kernel has not reported.
func (b *batch) fields(i int) controlFields {
	h := &b.msgs[i].header
	f := controlFields{hops: DefaultHopLimit}
	for rest := unsafe.Slice(h.Control, h.Controllen); len(rest) >= unix.SizeofCmsghdr; {
		m, value, next, err := unix.ParseOneSocketControlMessage(rest)
		if err != nil {
			break
		}
		// IP_TOS is one byte. The other values have the type int (ip(7), udp(7)).
		number := 0
		switch {
		case len(value) >= 4:
			number = int(int32(binary.NativeEndian.Uint32(value)))
		case len(value) > 0:
			number = int(value[0])
		}
		switch {
		case m.Level == unix.IPPROTO_UDP:
			f.segment = number
		case m.Level == unix.SOL_SOCKET:
			if m.Type == unix.SCM_TIMESTAMPNS && len(value) == int(unsafe.Sizeof(unix.Timespec{})) {
				f.time = (*unix.Timespec)(unsafe.Pointer(&value[0])).Nano()
			}
		case m.Type == unix.IP_TOS || m.Type == unix.IPV6_TCLASS:
			f.class = uint8(number)
		case m.Type == unix.IP_TTL || m.Type == unix.IPV6_HOPLIMIT:
			f.hops = uint8(number)
		}
		rest = next
	}
	return f
}

// prepareSend prepares message i. The parameters first and count say which buffers the
// message has. If the parameter segment is not 0, the kernel cuts the message into
// datagrams of that many bytes (udp(7), UDP_SEGMENT).
func (b *batch) prepareSend(i, first, count int, dest *destination, segment int) {
	h := &b.msgs[i].header
	h.Name, h.Namelen = nil, 0
	if dest.socket == nil {
		h.Name, h.Namelen = (*byte)(unsafe.Pointer(&dest.name)), dest.nameLen
	}
	h.Iov = &b.iovecs[first]
	h.SetIovlen(count)
	h.Control = nil
	h.SetControllen(0)
	c := &b.control[i]
	c.n = 0
	if segment > 0 {
		c.addSegment(segment)
	}
	if dest.socket == nil {
		c.addHeader(&dest.header)
	}
	if c.n > 0 {
		h.Control = (*byte)(unsafe.Pointer(&c.list))
		h.SetControllen(c.n * int(unsafe.Sizeof(c.list[0])))
	}
}

// setLength sets how many bytes of buffer i are sent.
func (b *batch) setLength(i, n int) { b.iovecs[i].SetLen(n) }

// count returns the number of buffers from which message i is sent.
func (b *batch) count(i int) int { return int(b.msgs[i].header.Iovlen) }

func (b *batch) swap(i, j int) {
	b.buffers[i], b.buffers[j] = b.buffers[j], b.buffers[i]
	b.iovecs[i], b.iovecs[j] = b.iovecs[j], b.iovecs[i]
}

// received returns datagram i. If the datagram was longer than its buffer, complete is
// false.
func (b *batch) received(i int) (data []byte, complete bool) {
	m := &b.msgs[i]
	return b.buffers[i][:m.length], m.header.Flags&unix.MSG_TRUNC == 0
}

// receive receives as many datagrams as the batch has room for, and returns their
// number. It does not block. It ignores errors, because they are ICMP messages about
// earlier packets.
func (b *batch) receive(fd int) int {
	if b.buffers[len(b.buffers)-1] == nil {
		for i := range b.buffers {
			b.buffer(i)
		}
	}
	n, _ := b.call(unix.SYS_RECVMMSG, fd, len(b.msgs))
	return n
}

// receiveOne receives one datagram into the first buffer. It is faster than receive()
// for one datagram.
func (b *batch) receiveOne(fd int) int {
	return b.receiveNamed(fd, unsafe.Pointer(&b.addrs[0]), unsafe.Pointer(&b.msgs[0].header.Namelen))
}

// receiveOneConnected receives one datagram on a connected socket into the first buffer.
// It saves 90 ns, because it does not ask for the address of the sender.
func (b *batch) receiveOneConnected(fd int) int { return b.receiveNamed(fd, nil, nil) }

func (b *batch) receiveNamed(fd int, name, nameLen unsafe.Pointer) int {
	m, buffer := &b.msgs[0], b.buffer(0)
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)), unix.MSG_DONTWAIT|unix.MSG_TRUNC,
		uintptr(name), uintptr(nameLen))
	if errno != 0 {
		return 0
	}
	m.header.Flags = 0
	if n > uintptr(len(buffer)) { // With MSG_TRUNC, n is the whole length of the datagram.
		m.header.Flags, n = unix.MSG_TRUNC, uintptr(len(buffer))
	}
	m.length = uint32(n)
	return 1
}

// send sends the first messages of the batch through the socket fd. It returns how many
// messages the kernel has accepted.
func (b *batch) send(fd, messages int) (int, error) {
	if messages == 1 && b.count(0) == 1 && b.control[0].n == 0 {
		return b.sendOne(fd)
	}
	return b.call(unix.SYS_SENDMMSG, fd, messages)
}

// sendOne sends a message of one buffer. It is faster than sendmmsg(2).
func (b *batch) sendOne(fd int) (int, error) {
	h := &b.msgs[0].header
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(h.Iov.Base)), uintptr(h.Iov.Len), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL,
		uintptr(unsafe.Pointer(h.Name)), uintptr(h.Namelen))
	if errno != 0 {
		return 0, errno
	}
	return 1, nil
}

func (b *batch) call(trap uintptr, fd, messages int) (int, error) {
	n, _, errno := unix.RawSyscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(&b.msgs[0])),
		uintptr(messages), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// set writes an address, and returns its length in bytes.
func (n *rawAddr) set(at netip.AddrPort, zone uint32) uint32 {
	if a := at.Addr(); a.Is4() {
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(n))
		*in = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: a.As4()}
		setPort(&in.Port, at.Port())
		return unix.SizeofSockaddrInet4
	}
	*n = rawAddr{Family: unix.AF_INET6, Addr: at.Addr().As16(), Scope_id: zone}
	setPort(&n.Port, at.Port())
	return unix.SizeofSockaddrInet6
}

// get returns the address. The address has no zone.
func (n *rawAddr) get() netip.AddrPort {
	if n.Family == unix.AF_INET {
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(n))
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), getPort(&in.Port))
	}
	return netip.AddrPortFrom(netip.AddrFrom16(n.Addr), getPort(&n.Port))
}

// setPort writes a port in network byte order.
func setPort(field *uint16, port uint16) {
	b := (*[2]byte)(unsafe.Pointer(field))
	b[0], b[1] = byte(port>>8), byte(port)
}

// getPort reads a port in network byte order.
func getPort(field *uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(field))
	return uint16(b[0])<<8 | uint16(b[1])
}

// attachFilter makes the kernel run a classic BPF program for each packet of a socket.
// What the result of the program means depends on the option (socket(7)).
func attachFilter(fd, option int, program []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, option,
		&unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)})
}
