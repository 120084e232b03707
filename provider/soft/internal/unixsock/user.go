//go:build linux

package unixsock

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/netlink"
)

// The kernel reports to every process which users have made the Unix sockets of its
// network namespace; see sock_diag(7). These names and numbers are from
// linux/unix_diag.h. UNIX_DIAG_UID exists since Linux 5.3.
const (
	sockDiagByFamily = 20
	udiagShowName    = 1 << 0
	udiagShowUID     = 1 << 6
	unixDiagName     = 0
	unixDiagUID      = 7

	diagRequestSize = 24 // size of struct unix_diag_req
	diagMessageSize = 16 // size of struct unix_diag_msg
)

// States of a socket with a name: TCP_LISTEN if the socket listens, TCP_CLOSE if it is
// bound and not connected, and TCP_ESTABLISHED if it is connected. A socket that was
// accepted from a listener has the listener's name and the state TCP_ESTABLISHED.
const (
	diagEstablished = 1
	diagClosed      = 7
	diagListening   = 10
)

// errNoDiag means that the kernel has no unix_diag, or that its answer has an unknown
// format.
var errNoDiag = errors.New("no unix_diag")

// User returns the user of the process that made the socket with an abstract name. The
// name begins with '@'. The parameter kind is the type of the socket, such as
// unix.SOCK_SEQPACKET, because sockets of different types can have the same name. User
// returns false if there is no such socket, if it can not be distinguished from sockets
// that were accepted from it, or if the kernel does not report users. The call takes time
// in proportion to the number of Unix sockets in the network namespace.
func User(name string, kind byte) (uid uint32, known bool) {
	found := diagSearch{name: "\x00" + name[1:], kind: kind}
	if err := dumpSockets(&found); err != nil {
		return 0, false
	}
	return found.user()
}

// A diagSearch collects the user IDs of all Unix sockets that have a certain name and
// type. The user ID of a socket is that of the process that has made the socket.
type diagSearch struct {
	name string
	kind byte
	// User of the socket that listens or is only bound. There is at most one such socket.
	holder    []uint32
	connected []uint32
}

// user returns the user of the socket that listens or is only bound. If there is no such
// socket, user returns the user of the connected sockets, provided that they all have the
// same user.
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

// dumpSockets asks the kernel for a list of all Unix sockets, and passes each socket in
// the list to diagSearch.add.
func dumpSockets(s *diagSearch) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	// The kernel creates the answer during the calls of recvfrom, so these calls never
	// block.
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

// diagRequest returns a request for a list of the sockets in all states: a netlink header
// and a struct unix_diag_req.
func diagRequest() []byte {
	b := make([]byte, unix.SizeofNlMsghdr+diagRequestSize)
	netlink.PutHeader(b, sockDiagByFamily, unix.NLM_F_DUMP)
	r := b[unix.SizeofNlMsghdr:]
	r[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(r[4:], ^uint32(0))
	binary.NativeEndian.PutUint32(r[12:], udiagShowName|udiagShowUID)
	return b
}

// addAll parses the messages in one packet of the answer. It returns true if the packet
// is the last one.
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
