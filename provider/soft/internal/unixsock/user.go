//go:build linux

package unixsock

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/netlink"
)

// To every process the kernel reports the users of all Unix sockets in its network
// namespace; see sock_diag(7). The names and numbers are those of linux/unix_diag.h.
// Linux 5.3 added UNIX_DIAG_UID.
const (
	sockDiagByFamily = 20
	udiagShowName    = 1 << 0
	udiagShowUID     = 1 << 6
	unixDiagName     = 0
	unixDiagUID      = 7

	diagRequestSize = 24 // size of struct unix_diag_req
	diagMessageSize = 16 // size of struct unix_diag_msg
)

// The states of sockets with a name: TCP_LISTEN for a socket that listens, TCP_CLOSE
// for one that is only bound, and TCP_ESTABLISHED for a connected one. A socket that
// was accepted from a listener has the listener's name and TCP_ESTABLISHED.
const (
	diagEstablished = 1
	diagClosed      = 7
	diagListening   = 10
)

// errNoDiag means that the kernel has no unix_diag, or that its answer has an unknown
// format.
var errNoDiag = errors.New("no unix_diag")

// User returns the user of the socket that holds an abstract name, which begins
// with '@': the user of the process that made the socket. Sockets of different kinds,
// such as unix.SOCK_SEQPACKET, can have the same name. The call takes time in
// proportion to the number of Unix sockets. It returns false if there is no such
// socket, if it can not be distinguished from sockets accepted on it, or if the
// kernel does not report users.
func User(name string, kind byte) (uid uint32, known bool) {
	found := diagSearch{name: "\x00" + name[1:], kind: kind}
	if err := dumpSockets(&found); err != nil {
		return 0, false
	}
	return found.user()
}

// A diagSearch collects the users of the sockets with a name.
type diagSearch struct {
	name string
	kind byte
	// user of the socket that listens or is only bound; there is at most one such socket
	holder    []uint32
	connected []uint32
}

// user returns the user of the holder. Without a holder, it returns the user of the
// connected sockets if they all have the same.
func (s *diagSearch) user() (uid uint32, known bool) {
	if len(s.holder) > 0 {
		return s.holder[0], true
	}
	for _, u := range s.connected {
		if u != s.connected[0] {
			return 0, false
		}
	}
	if len(s.connected) > 0 {
		return s.connected[0], true
	}
	return 0, false
}

// take parses one message of a dump: struct unix_diag_msg, and attributes.
func (s *diagSearch) take(b []byte) error {
	if len(b) < diagMessageSize {
		return errNoDiag
	}
	kind, state := b[1], b[2]
	name, uid, hasUID := "", uint32(0), false
	for attrs := b[diagMessageSize:]; len(attrs) >= unix.SizeofNlAttr; {
		size := int(binary.NativeEndian.Uint16(attrs))
		if size < unix.SizeofNlAttr || size > len(attrs) {
			return errNoDiag
		}
		value := attrs[unix.SizeofNlAttr:size]
		switch binary.NativeEndian.Uint16(attrs[2:]) {
		case unixDiagName:
			name = string(value)
		case unixDiagUID:
			if len(value) == 4 {
				uid, hasUID = binary.NativeEndian.Uint32(value), true
			}
		}
		attrs = attrs[min(align4(size), len(attrs)):]
	}
	if kind != s.kind || name != s.name || !hasUID {
		return nil
	}
	switch state {
	case diagListening, diagClosed:
		s.holder = append(s.holder, uid)
	case diagEstablished:
		s.connected = append(s.connected, uid)
	}
	return nil
}

func align4(n int) int { return (n + 3) &^ 3 }

// dumpSockets passes every Unix socket to s.
func dumpSockets(s *diagSearch) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	// The kernel creates the answer while it is received, so receiving never blocks.
	buf := make([]byte, 32<<10)
	for done := false; !done; {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		if err != nil {
			return err
		}
		if done, err = s.takeAll(buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

// diagRequest returns a request to dump the sockets in all states: a netlink header
// and struct unix_diag_req.
func diagRequest() []byte {
	b := make([]byte, unix.SizeofNlMsghdr+diagRequestSize)
	netlink.PutHeader(b, sockDiagByFamily, unix.NLM_F_DUMP)
	r := b[unix.SizeofNlMsghdr:]
	r[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(r[4:], ^uint32(0))
	binary.NativeEndian.PutUint32(r[12:], udiagShowName|udiagShowUID)
	return b
}

// takeAll parses the messages of one packet, and reports whether the dump is
// complete.
func (s *diagSearch) takeAll(b []byte) (done bool, err error) {
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return false, errNoDiag
		}
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case sockDiagByFamily:
			if err := s.take(b[unix.SizeofNlMsghdr:size]); err != nil {
				return false, err
			}
		default: // The message is NLMSG_ERROR, or its type is unknown.
			return false, errNoDiag
		}
		b = b[min(align4(size), len(b)):]
	}
	return false, nil
}
