//go:build linux

package hostile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Protocol of the local path. A message is one packet of a SOCK_SEQPACKET socket. Its
// layout is in provider/soft/internal/unixcm/codec.go.
const (
	localHeader  = 88
	localVersion = 3
	localREQ     = 0
	localREJ     = 2
	localREP     = 3
)

// localName returns the socket name of a listener. The host is an IP address, or "*4" for
// the IPv4 wildcard address.
func localName(host string, port uint16) string {
	return fmt.Sprintf("@rdmaloop/1/tcp/%s/%d", host, port)
}

// localRequest returns a connection request from src to dst with private data.
func localRequest(src, dst netip.AddrPort, private ...byte) []byte {
	b := make([]byte, localHeader)
	b[0], b[1] = localVersion, localREQ
	binary.LittleEndian.PutUint32(b[8:], 0x1234) // queue pair number; arbitrary
	// responder resources, initiator depth, retry count, RNR retry count
	b[20], b[21], b[22], b[23] = 1, 1, 7, 7
	binary.LittleEndian.PutUint16(b[24:], src.Port())
	binary.LittleEndian.PutUint16(b[26:], dst.Port())
	from, to := src.Addr().As16(), dst.Addr().As16()
	copy(b[28:], from[:])
	copy(b[44:], to[:])
	binary.LittleEndian.PutUint16(b[6:], uint16(len(private)))
	return append(b, private...)
}

// A localSocket is a Unix socket of an attacker.
type localSocket struct{ fd int }

// receive() waits at most this long (SO_RCVTIMEO of socket(7)). A server waits for a
// request for a shorter time.
const localTimeout = 20 * time.Second

func newLocalSocket() (localSocket, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return localSocket{-1}, err
	}
	limit := unix.NsecToTimeval(int64(localTimeout))
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &limit); err != nil {
			_ = unix.Close(fd)
			return localSocket{-1}, err
		}
	}
	return localSocket{fd}, nil
}

func (s localSocket) close() { _ = unix.Close(s.fd) }

// uninterrupted repeats fn() while it returns EINTR. Signals interrupt system calls on
// sockets that have a timeout (signal(7)).
func uninterrupted(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (s localSocket) bind(name string) error {
	return unix.Bind(s.fd, &unix.SockaddrUnix{Name: name})
}

// connect connects the socket to the first name on which a process listens.
func (s localSocket) connect(names ...string) (err error) {
	for _, name := range names {
		err = uninterrupted(func() error { return unix.Connect(s.fd, &unix.SockaddrUnix{Name: name}) })
		if !errors.Is(err, unix.ECONNREFUSED) {
			return err
		}
	}
	return err
}

// send sends a packet and returns its length. If the peer has closed, it returns 0.
func (s localSocket) send(packet []byte, fds ...int) int {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if uninterrupted(func() error { return unix.Sendmsg(s.fd, packet, rights, nil, unix.MSG_NOSIGNAL) }) != nil {
		return 0
	}
	return len(packet)
}

// An answer is the reply to a request.
type answer struct {
	kind byte
	size int
	fds  []int
	qpn  uint32 // number of the server's queue pair, in a REP
}

// receive waits for one packet. It returns false if the peer has closed, or after
// localTimeout.
func (s localSocket) receive() (a answer, ok bool) {
	packet, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*8))
	n, nRights := 0, 0
	err := uninterrupted(func() (err error) {
		n, nRights, _, _, err = unix.Recvmsg(s.fd, packet, rights, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil || n < localHeader {
		return a, false
	}
	controls, err := unix.ParseSocketControlMessage(rights[:nRights])
	if err != nil {
		return a, false
	}
	for i := range controls {
		fds, err := unix.ParseUnixRights(&controls[i])
		if err == nil {
			a.fds = append(a.fds, fds...)
		}
	}
	a.kind, a.size, a.qpn = packet[1], n, binary.LittleEndian.Uint32(packet[8:])
	return a, true
}

func (a answer) close() {
	for _, fd := range a.fds {
		_ = unix.Close(fd)
	}
}

// waitForClose waits until the peer closes. If the peer does not close in time, it
// returns false.
func (s localSocket) waitForClose() bool {
	var b [1]byte
	for {
		n := 0
		err := uninterrupted(func() (err error) {
			n, err = unix.Read(s.fd, b[:])
			return err
		})
		if err != nil {
			return errors.Is(err, unix.ECONNRESET)
		}
		if n == 0 {
			return true
		}
	}
}
