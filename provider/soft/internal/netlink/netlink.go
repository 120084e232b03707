//go:build linux

package netlink

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// ErrShort means that the kernel's answer to a request is not complete.
var ErrShort = errors.New("short netlink answer")

// Ask sends a netlink request and returns the answer, which is one message. The
// parameter protocol is for example unix.NETLINK_ROUTE. See netlink(7).
func Ask(protocol int, request []byte) (answer []byte, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	// The answer is in the socket before sendto(2) returns, so this call does not wait.
	answer = make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT)
	if err != nil {
		return nil, err
	}
	return answer[:n], nil
}

// PutHeader writes the header at the start of a request (struct nlmsghdr, netlink(7)).
// The slice b is the whole request, and its length goes into the header.
func PutHeader(b []byte, kind, flags uint16) {
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|flags)
}

// Parse returns the type and the body of an answer. If the kernel has answered with an
// error (NLMSG_ERROR), Parse returns its number as a unix.Errno. Errno 0 is an
// acknowledgement.
func Parse(b []byte) (kind uint16, body []byte, err error) {
	if len(b) < unix.SizeofNlMsghdr+4 {
		return 0, nil, ErrShort
	}
	kind, body = binary.NativeEndian.Uint16(b[4:]), b[unix.SizeofNlMsghdr:]
	if kind == unix.NLMSG_ERROR {
		return 0, nil, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
	}
	return kind, body, nil
}

// AppendAttr appends an attribute to a request. The value's length must be a multiple of
// 4.
func AppendAttr(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return append(b, value...)
}
