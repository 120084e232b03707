//go:build linux

package udp

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// The kernel counts the identification of a connected socket over IPv4 from a secret
// number. The receiver can read the number: a classic BPF program at a socket can load
// the IP header, and its result is the number of bytes of the datagram that the system
// keeps. So the connected socket sends to another socket of this library, whose program
// keeps as many bytes as eight bits of the identification say.

const (
	// probeSize is the length of a probe in bytes. The first byte selects eight bits of
	// the identification. Of the other 255 bytes, as many arrive as these bits say.
	probeSize = 1 + 255
	// probeTimeout is the time in milliseconds after which a probe is taken for lost. It
	// is arbitrary. On one host a datagram usually arrives before the call that sends it
	// returns. After a lost probe, no destination of the sender gets a connected socket;
	// see sender.connectDisabled.
	probeTimeout = 100
)

var (
	errProbeLost       = errors.New("a datagram to this host did not arrive")
	errUnknownCounting = errors.New("the system counts datagrams in an unknown way")
)

// An ipIDProbe finds out the identification that the system writes into the packets of a
// socket.
type ipIDProbe struct {
	from *connectedSocket // sends the probes
	fd   int              // socket that receives them
	at   unix.Sockaddr    // address of fd
}

// probeIPID returns the identification of the next message of a connected socket over
// IPv4. It returns an error if the system counts in an unknown way.
func probeIPID(of *connectedSocket) (uint16, error) {
	r := &ipIDProbe{from: of}
	if err := r.open(); err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(r.fd) }()
	last, err := r.readID()
	if err != nil {
		return 0, err
	}
	if err := r.checkSegments(last + 1); err != nil {
		return 0, err
	}
	again, err := r.readID()
	if err == nil && again != last+1+probesPerRead {
		err = errUnknownCounting
	}
	return again + 1, err
}

// open opens the socket that receives the probes.
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

// bind binds the receiving socket to a free port. The socket drops all datagrams until
// connect, because until then other sockets may send to it.
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

// connect makes the receiving socket accept the probes, and datagrams of no other socket.
func (r *ipIDProbe) connect(to netip.AddrPort) error {
	if err := unix.Connect(r.fd, hostport.Sockaddr(to.Addr(), int(to.Port()))); err != nil {
		return err
	}
	return attachFilter(r.fd, unix.SO_ATTACH_FILTER, requestIPID())
}

// probesPerRead is the number of messages that one readID sends.
const probesPerRead = 2

// readID returns the identification of the last message that it sends.
func (r *ipIDProbe) readID() (uint16, error) {
	high, err := r.probeByte(8)
	if err != nil {
		return 0, err
	}
	low, err := r.probeByte(0)
	if low == 0 { // the number has carried into the high byte since the first message
		high++
	}
	return uint16(high)<<8 | uint16(low), err
}

// checkSegments sends a message of two segments. It returns an error unless the first
// segment has the identification want, and the second has the next one.
func (r *ipIDProbe) checkSegments(want uint16) error {
	if err := unix.SetsockoptInt(r.from.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, probeSize); err != nil {
		return err
	}
	var b [2 * probeSize]byte // the first byte of both segments is 0, for the low eight bits
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

// probeByte sends a datagram, and returns eight bits of its identification, from bit
// shift on.
func (r *ipIDProbe) probeByte(shift byte) (uint8, error) {
	var b [probeSize]byte
	b[0] = shift
	if err := unix.Sendto(r.from.fd, b[:], unix.MSG_DONTWAIT, r.at); err != nil {
		return 0, err
	}
	n, err := r.receive(b[:])
	return uint8(n - 1), err
}

// receive reads one datagram. It waits for probeTimeout at most.
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

// requestIPID returns a program that keeps 1 byte of a datagram, and as many more as
// eight bits of its identification say. The first byte of the datagram is the position of
// these bits.
func requestIPID() []unix.SockFilter {
	const (
		network        = 0xfff00000 // offset of the IP header (SKF_NET_OFF in linux/filter.h)
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
