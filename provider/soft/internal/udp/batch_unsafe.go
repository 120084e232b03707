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

// A rawName is room for a socket address of either family.
type rawName unix.RawSockaddrInet6

// A batch is what one call of recvmmsg(2) or sendmmsg(2) works on: datagrams, in
// buffers that are made once, when they are first needed: sockets come and go with
// connections, and on most there are never many packets at a time. It must not be
// copied, and not used by two goroutines at a time.
type batch struct {
	msgs         []mmsg
	iovecs       []unix.Iovec
	buffers      [][]byte // nil: not needed so far
	size         int      // of a buffer
	names        []rawName
	control      []cmsgs
	wantsControl bool // receives control messages
}

// cmsgs are the control messages of one message; see cmsg(3). There are at
// most three: udp(7) UDP_SEGMENT, and the traffic class and hop limit of ip(7) and
// ipv6(7).
type cmsgs struct {
	list [3]cmsg
	n    int
}

type cmsg struct {
	header unix.Cmsghdr
	value  [unsafe.Sizeof(uintptr(0))]byte // in the order of the machine, to the next aligned place
}

// next adds a control message whose value has so many bytes.
func (c *cmsgs) next(level, option int32, size int) []byte {
	m := &c.list[c.n]
	c.n++
	m.header = unix.Cmsghdr{Level: level, Type: option}
	m.header.SetLen(unix.CmsgLen(size))
	return m.value[:]
}

func (c *cmsgs) addSegment(size int) {
	binary.NativeEndian.PutUint16(c.next(unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2), uint16(size))
}

// addHeader adds what a destination wants in the IP header.
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

// newBatch makes room for n buffers of size bytes, and a message for each.
func newBatch(n, size int) *batch {
	return &batch{
		msgs: make([]mmsg, n), iovecs: make([]unix.Iovec, n), buffers: make([][]byte, n), size: size,
		names: make([]rawName, n), control: make([]cmsgs, n),
	}
}

// buffer is buffer i.
func (b *batch) buffer(i int) []byte {
	if b.buffers[i] == nil {
		b.buffers[i] = make([]byte, b.size)
		b.iovecs[i].Base = &b.buffers[i][0]
		b.iovecs[i].SetLen(b.size)
	}
	return b.buffers[i]
}

// expect readies message i to receive into buffer i.
func (b *batch) expect(i int) {
	h := &b.msgs[i].header
	h.Name, h.Namelen = (*byte)(unsafe.Pointer(&b.names[i])), uint32(unsafe.Sizeof(b.names[i]))
	h.Iov = &b.iovecs[i]
	h.SetIovlen(1)
	if b.wantsControl {
		h.Control = (*byte)(unsafe.Pointer(&b.control[i].list))
		h.SetControllen(int(unsafe.Sizeof(b.control[i].list)))
	}
}

// header is what control messages tell of the IP header of datagram i, and what
// hosts send mostly where they do not.
func (b *batch) header(i int) (class, hops uint8) {
	h := &b.msgs[i].header
	hops = DefaultHopLimit
	for rest := unsafe.Slice(h.Control, h.Controllen); len(rest) >= unix.SizeofCmsghdr; {
		m, value, next, err := unix.ParseOneSocketControlMessage(rest)
		if err != nil {
			break
		}
		number := uint8(0) // IP_TOS is a byte, the others are integers: ip(7)
		switch {
		case len(value) >= 4:
			number = uint8(binary.NativeEndian.Uint32(value))
		case len(value) > 0:
			number = value[0]
		}
		switch m.Type {
		case unix.IP_TOS, unix.IPV6_TCLASS:
			class = number
		case unix.IP_TTL, unix.IPV6_HOPLIMIT:
			hops = number
		}
		rest = next
	}
	return class, hops
}

// address makes message i one of count buffers from first on, to dest. With a
// segment size it is to be cut into datagrams of that size. An outlet of its own
// knows the name and what goes into the IP header.
func (b *batch) address(i, first, count int, to *destination, segment int) {
	h := &b.msgs[i].header
	h.Name, h.Namelen = nil, 0
	if to.socket == nil {
		h.Name, h.Namelen = (*byte)(unsafe.Pointer(&to.name)), to.nameLen
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
	if to.socket == nil {
		c.addHeader(&to.header)
	}
	if c.n > 0 {
		h.Control = (*byte)(unsafe.Pointer(&c.list))
		h.SetControllen(c.n * int(unsafe.Sizeof(c.list[0])))
	}
}

// setLength says how much of a buffer is to be sent.
func (b *batch) setLength(i, n int) { b.iovecs[i].SetLen(n) }

// count is how many buffers message i has.
func (b *batch) count(i int) int { return int(b.msgs[i].header.Iovlen) }

// swap exchanges two buffers, with what is in them.
func (b *batch) swap(i, j int) {
	b.buffers[i], b.buffers[j] = b.buffers[j], b.buffers[i]
	b.iovecs[i], b.iovecs[j] = b.iovecs[j], b.iovecs[i]
}

// received returns datagram i, and whether all of it found room.
func (b *batch) received(i int) (data []byte, complete bool) {
	m := &b.msgs[i]
	return b.buffers[i][:m.length], m.header.Flags&unix.MSG_TRUNC == 0
}

// receive receives up to so many datagrams as there are messages, and never
// blocks: that is why it does not tell the scheduler. It returns how many, 0 also
// for errors: what is told here is of packets sent before (ICMP), and the missing
// answer tells it, too.
func (b *batch) receive(fd int) int {
	if b.buffers[len(b.buffers)-1] == nil {
		for i := range b.buffers {
			b.buffer(i)
		}
	}
	n, _ := b.call(unix.SYS_RECVMMSG, fd, len(b.msgs))
	return n
}

// receiveOne receives one datagram into the first buffer, as receive does. It
// costs less than a batch of one.
func (b *batch) receiveOne(fd int) int {
	m, buffer := &b.msgs[0], b.buffer(0)
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)), unix.MSG_DONTWAIT|unix.MSG_TRUNC,
		uintptr(unsafe.Pointer(&b.names[0])), uintptr(unsafe.Pointer(&m.header.Namelen)))
	if errno != 0 {
		return 0
	}
	m.header.Flags = 0
	if n > uintptr(len(buffer)) { // MSG_TRUNC tells how long it was
		m.header.Flags, n = unix.MSG_TRUNC, uintptr(len(buffer))
	}
	m.length = uint32(n)
	return 1
}

// send sends the first messages, as far as the system takes them.
func (b *batch) send(fd, messages int) (int, error) {
	if messages == 1 && b.count(0) == 1 && b.control[0].n == 0 {
		return b.sendOne(fd)
	}
	return b.call(unix.SYS_SENDMMSG, fd, messages)
}

// sendOne sends a message of one buffer, for less than a batch of one.
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

// set writes a name. Its length is what is returned.
func (n *rawName) set(at netip.AddrPort, zone uint32) uint32 {
	if a := at.Addr(); a.Is4() {
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(n))
		*in = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: a.As4()}
		setPort(&in.Port, at.Port())
		return unix.SizeofSockaddrInet4
	}
	*n = rawName{Family: unix.AF_INET6, Addr: at.Addr().As16(), Scope_id: zone}
	setPort(&n.Port, at.Port())
	return unix.SizeofSockaddrInet6
}

// get reads a name, without a zone.
func (n *rawName) get() netip.AddrPort {
	if n.Family == unix.AF_INET {
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(n))
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), getPort(&in.Port))
	}
	return netip.AddrPortFrom(netip.AddrFrom16(n.Addr), getPort(&n.Port))
}

// Ports are in network order whatever the machine's is.

func setPort(field *uint16, port uint16) {
	b := (*[2]byte)(unsafe.Pointer(field))
	b[0], b[1] = byte(port>>8), byte(port)
}

func getPort(field *uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(field))
	return uint16(b[0])<<8 | uint16(b[1])
}

// attachFilter has the kernel run a classic BPF program: for a packet at a socket
// (SO_ATTACH_FILTER), or to choose the socket of a group
// (SO_ATTACH_REUSEPORT_CBPF); see socket(7).
func attachFilter(fd, option int, program []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, option,
		&unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)})
}
