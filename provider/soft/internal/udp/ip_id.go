//go:build linux

package udp

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// Where a socket that is connected over IPv4 begins to count is secret, but not
// from those who receive: a classic BPF program at a socket can read the IP
// header, and decides how much of a datagram is kept. So the socket sends to
// another one of ours, which keeps as many bytes as the identification says.

const (
	// probeSize is the length of a datagram that tells eight bits of its
	// identification, by how much of it arrives: a byte that says which, and one
	// for each number.
	probeSize = 1 + 255
	// probeTimeout is for how many milliseconds a datagram is waited for. On one
	// host it is there before the call returns that sends it, unless the system has
	// more to do than that, or a filter drops it: then nobody waits again.
	probeTimeout = 100
)

var (
	errProbeLost       = errors.New("a datagram to this host did not arrive")
	errUnknownCounting = errors.New("the system counts datagrams in an unknown way")
)

// An ipIDProbe is a pair of sockets, of which one tells how the other numbers.
type ipIDProbe struct {
	from *connectedSocket
	fd   int
	at   unix.Sockaddr
}

// probeIPID finds what the next message of a connected socket over IPv4
// will have, and makes sure on the way that the system counts as we think.
func probeIPID(of *connectedSocket) (uint16, error) {
	r := &ipIDProbe{from: of}
	if err := r.open(); err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(r.fd) }()
	last, err := r.read()
	if err != nil {
		return 0, err
	}
	if err := r.sendSegments(last + 1); err != nil {
		return 0, err
	}
	again, err := r.read()
	if err == nil && again != last+1+probesPerRead {
		err = errUnknownCounting
	}
	return again + 1, err
}

func (r *ipIDProbe) open() (err error) {
	local := r.from.local
	if r.fd, err = hostport.UDPSocket(local.Addr()); err != nil {
		return err
	}
	if err = r.bind(local.Addr()); err == nil {
		err = r.connect(local)
	}
	if err != nil {
		_ = unix.Close(r.fd)
	}
	return err
}

// bind gives it a port where nothing is taken yet: until it is connected, anybody
// may send there, and what has been queued would stay.
func (r *ipIDProbe) bind(local netip.Addr) (err error) {
	if err := DropAll(r.fd); err != nil {
		return err
	}
	if err := unix.Bind(r.fd, hostport.Sockaddr(local, 0)); err != nil {
		return err
	}
	r.at, err = unix.Getsockname(r.fd)
	return err
}

// connect has it take the datagrams of the other one, and nobody else's.
func (r *ipIDProbe) connect(to netip.AddrPort) error {
	if err := unix.Connect(r.fd, hostport.Sockaddr(to.Addr(), int(to.Port()))); err != nil {
		return err
	}
	return attachFilter(r.fd, unix.SO_ATTACH_FILTER, requestIPID())
}

// probesPerRead is how many messages one read takes.
const probesPerRead = 2

// read is the identification of the last message it sends.
func (r *ipIDProbe) read() (uint16, error) {
	high, err := r.ask(8)
	if err != nil {
		return 0, err
	}
	low, err := r.ask(0)
	if low == 0 { // the one before was the last of its 256
		high++
	}
	return uint16(high)<<8 | uint16(low), err
}

// sendSegments sends a message of two segments, the first of which is to have an
// identification, and the second the next.
func (r *ipIDProbe) sendSegments(want uint16) error {
	if err := unix.SetsockoptInt(r.from.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, probeSize); err != nil {
		return err
	}
	var b [2 * probeSize]byte // both tell the lower eight bits
	if err := unix.Sendto(r.from.fd, b[:], unix.MSG_DONTWAIT, r.at); err != nil {
		return err
	}
	for i := range uint16(2) {
		n, err := r.receive(b[:])
		if err == nil && uint8(n-1) != uint8(want+i) {
			err = errUnknownCounting
		}
		if err != nil {
			return err
		}
	}
	return unix.SetsockoptInt(r.from.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0)
}

// ask sends a datagram and tells what its identification is, shifted so far.
func (r *ipIDProbe) ask(shift byte) (uint8, error) {
	var b [probeSize]byte
	b[0] = shift
	if err := unix.Sendto(r.from.fd, b[:], unix.MSG_DONTWAIT, r.at); err != nil {
		return 0, err
	}
	n, err := r.receive(b[:])
	return uint8(n - 1), err
}

func (r *ipIDProbe) receive(b []byte) (int, error) {
	for {
		n, err := unix.Read(r.fd, b)
		if !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}, probeTimeout)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return 0, err
		case err == nil && ready == 0:
			return 0, errProbeLost
		}
	}
}

// requestIPID keeps as much of a datagram as its identification says,
// shifted as its first byte says.
func requestIPID() []unix.SockFilter {
	const (
		network        = 0xfff00000 // what is loaded from there on is of the IP header (SKF_NET_OFF)
		identification = 4
		udpHeader      = 8
	)
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: udpHeader},
		{Code: unix.BPF_MISC | unix.BPF_TAX},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: network + identification},
		{Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_X},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xff},
		{Code: unix.BPF_ALU | unix.BPF_ADD | unix.BPF_K, K: udpHeader + 1},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
}
