//go:build linux

package udp

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// Over IPv4 the kernel numbers the messages of a connected socket. The number is in the
// identification field of the IP header. The kernel begins with a secret number. An
// ipIDProbe finds out the next number:
//
//   - The connected socket sends datagrams, the probes, to another socket.
//   - A BPF program of that socket cuts each datagram to a length that shows eight bits
//     of the identification.

const (
	// probeSize is the length of a probe in bytes. The first byte of the probe selects
	// eight bits of the identification. If the eight bits have the value v, only 1+v
	// bytes arrive.
	probeSize = 1 + 255
	// probeTimeout is the time in milliseconds after which a probe counts as lost. After
	// a lost probe the sender opens no more connected sockets. Arbitrary.
	probeTimeout = 100
)

var (
	errProbeLost       = errors.New("a datagram to this host did not arrive")
	errUnknownCounting = errors.New("the kernel counts datagrams in an unknown way")
)

// An ipIDProbe finds out the IP identification of the next message that a connected
// socket sends.
type ipIDProbe struct {
	from *connectedSocket // connected socket that sends the probes
	fd   int              // descriptor of the socket that receives the probes
	at   unix.Sockaddr    // address of the receiving socket
}

// probeIPID returns the identification of the next message that the socket sends over
// IPv4. It returns an error if the kernel does not number the messages one after
// another.
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

// bind binds the receiving socket to a free port. A filter drops all datagrams until
// connect() is called.
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

// connect connects the receiving socket to the sender of the probes. Afterwards the
// socket receives only probes.
func (r *ipIDProbe) connect(to netip.AddrPort) error {
	if err := unix.Connect(r.fd, hostport.Sockaddr(to.Addr(), int(to.Port()))); err != nil {
		return err
	}
	return attachFilter(r.fd, unix.SO_ATTACH_FILTER, requestIPID())
}

// probesPerRead is the number of messages that one call of readID sends.
const probesPerRead = 2

// readID sends two probes: one for the high byte of the identification, and then one for
// the low byte. It returns the identification of the second probe.
func (r *ipIDProbe) readID() (uint16, error) {
	high, err := r.probeByte(8)
	if err != nil {
		return 0, err
	}
	low, err := r.probeByte(0)
	// The identification of the second probe is one higher than that of the first. If
	// the low byte has wrapped around to 0, the high byte is one higher too.
	if low == 0 {
		high++
	}
	return uint16(high)<<8 | uint16(low), err
}

// checkSegments checks how the kernel numbers segments. It sends a message of two
// segments. The first segment must have the identification in the parameter want. The
// second segment must have the next number.
func (r *ipIDProbe) checkSegments(want uint16) error {
	if err := unix.SetsockoptInt(r.from.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, probeSize); err != nil {
		return err
	}
	// The first byte of each segment is 0, so the filter returns the low byte of the
	// identification.
	var b [2 * probeSize]byte
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

// probeByte sends a probe and returns a byte of its identification: the low byte for
// a shift of 0, and the high byte for a shift of 8.
func (r *ipIDProbe) probeByte(shift byte) (uint8, error) {
	var b [probeSize]byte
	b[0] = shift
	if err := unix.Sendto(r.from.fd, b[:], unix.MSG_DONTWAIT, r.at); err != nil {
		return 0, err
	}
	n, err := r.receive(b[:])
	return uint8(n - 1), err
}

// receive reads one datagram. It returns errProbeLost if no datagram arrives within
// probeTimeout.
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

// requestIPID returns a BPF program that cuts a datagram to 1 + (identification >> n &
// 0xff) bytes. The identification is that of the IP header. The number n is the first
// byte of the datagram's payload.
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
