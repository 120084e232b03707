//go:build linux

package unixsock

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/netlink"
)

// Constants of a request for all Unix sockets in a network namespace and their users
// (sock_diag(7), linux/unix_diag.h). UNIX_DIAG_UID exists since Linux 5.3.
const (
	sockDiagByFamily = 20
	udiagShowName    = 1 << 0
	udiagShowUID     = 1 << 6
	unixDiagName     = 0
	unixDiagUID      = 7

	diagRequestSize = 24 // size of struct unix_diag_req
	diagMessageSize = 16 // size of struct unix_diag_msg
)

// States of a Unix socket, as unix_diag(7) reports them. A socket that is bound, but is
// neither connected nor listening, has the state diagClosed.
const (
	diagEstablished = 1
	diagClosed      = 7
	diagListening   = 10
)

// errNoDiag means that the kernel has no unix_diag, or answers in an unknown format.
var errNoDiag = errors.New("no unix_diag")

// User returns the user of the process that made the socket with an abstract name. The
// name begins with '@'. The parameter kind is the socket's type, such as
// unix.SOCK_SEQPACKET. User returns false if it can not find the user. It goes through
// all Unix sockets of the network namespace.
func User(name string, kind byte) (uid uint32, known bool) {
	found := diagSearch{name: "\x00" + name[1:], kind: kind}
	if err := dumpSockets(&found); err != nil {
		return 0, false
	}
	return found.user()
}

// A diagSearch collects the users of all Unix sockets with a certain name and type.
type diagSearch struct {
	name string
	kind byte
	// user of the socket that is listening or only bound; at most one element
	holder    []uint32
	connected []uint32
}

// user returns the user of the socket that has bound the name. If there is none, and all
// connected sockets have the same user, it returns that user.
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

// add parses the description of one socket: a struct unix_diag_msg, and attributes.
func (s *diagSearch) add(b []byte) error {
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

// dumpSockets asks the kernel for all Unix sockets, and passes each of them to s.
func dumpSockets(s *diagSearch) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	// The kernel makes the answer during the calls of recvfrom(2), so they never block.
	buf := make([]byte, 32<<10)
	for done := false; !done; {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		if err != nil {
			return err
		}
		if done, err = s.addAll(buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

// diagRequest returns a request for the sockets in all states: a netlink header and a
// struct unix_diag_req.
func diagRequest() []byte {
	b := make([]byte, unix.SizeofNlMsghdr+diagRequestSize)
	netlink.PutHeader(b, sockDiagByFamily, unix.NLM_F_DUMP)
	r := b[unix.SizeofNlMsghdr:]
	r[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(r[4:], ^uint32(0))
	binary.NativeEndian.PutUint32(r[12:], udiagShowName|udiagShowUID)
	return b
}

// addAll parses one packet of the kernel's answer. It returns true if the answer ends in
// this packet.
func (s *diagSearch) addAll(b []byte) (done bool, err error) {
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return false, errNoDiag
		}
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case sockDiagByFamily:
			if err := s.add(b[unix.SizeofNlMsghdr:size]); err != nil {
				return false, err
			}
		default: // The type is NLMSG_ERROR or unknown.
			return false, errNoDiag
		}
		b = b[min(align4(size), len(b)):]
	}
	return false, nil
}
