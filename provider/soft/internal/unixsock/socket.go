//go:build linux

package unixsock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// New makes a non-blocking SOCK_SEQPACKET socket without a name. The error
// verbs.ErrNoResources means that no descriptor is free.
func New() (int, error) { return NewType(unix.SOCK_SEQPACKET) }

// NewType makes a socket of any type, such as unix.SOCK_DGRAM; see New.
func NewType(kind int) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return fd, resource.Wrap(err)
}

// Bind makes a SOCK_SEQPACKET socket with an abstract name. The name begins with '@'.
func Bind(name string) (int, error) { return BindType(unix.SOCK_SEQPACKET, name) }

// BindType makes a socket of any type with an abstract name; see Bind. Sockets of
// different types may have the same name.
func BindType(kind int, name string) (int, error) {
	fd, err := NewType(kind)
	if err != nil {
		return -1, err
	}
	if err := BindTo(fd, name); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// IsBound reports whether a SOCK_SEQPACKET socket has the name. It tries to bind the
// name. EADDRINUSE means true, and any other error is returned.
func IsBound(name string) (bool, error) {
	fd, err := Bind(name)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return true, nil
	case err != nil:
		return false, err
	}
	_ = unix.Close(fd)
	return false, nil
}

// Accept accepts the next client of a listening socket.
func Accept(fd int) (int, error) { return accept(fd) }

// Send sends one packet and duplicates of the given descriptors. Errors match
// verbs.ErrPeerGone.
func Send(fd int, packet []byte, fds []int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if err := send(fd, packet, rights); err != nil {
		return fmt.Errorf("%w: %w", verbs.ErrPeerGone, err)
	}
	return nil
}

// Receive receives one packet into buf, and up to maxFDs descriptors. The caller owns
// the descriptors. Errors:
//
//   - EAGAIN: no packet waits
//   - verbs.ErrPeerGone: the connection has ended
//   - verbs.ErrProtocol: the packet is longer than buf or has too many descriptors
//   - verbs.ErrNoResources: this process can not open the descriptors
func Receive(fd int, buf []byte, maxFDs int) (n int, fds []int, err error) {
	var rights []byte
	if maxFDs > 0 {
		rights = make([]byte, unix.CmsgSpace(4*maxFDs))
	}
	n, nRights, flags, err := receive(fd, buf, rights)
	if errors.Is(err, unix.ECONNRESET) {
		// The peer has closed its socket before it read all packets. The kernel reports
		// this once. Packets from the peer may still wait, so Receive tries again.
		n, nRights, flags, err = receive(fd, buf, rights)
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, nil, err
	case err != nil:
		return 0, nil, fmt.Errorf("%w: %w", verbs.ErrPeerGone, err)
	}
	if nRights > 0 {
		fds = parseRights(rights[:nRights])
	}
	switch {
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err := truncationError(maxFDs > 0 && flags&unix.MSG_CTRUNC != 0)
		CloseAll(fds)
		return 0, nil, err
	case n == 0:
		CloseAll(fds)
		return 0, nil, verbs.ErrPeerGone
	}
	return n, fds, nil
}

// truncationError returns the error for a truncated packet. A packet loses descriptors
// if this process has no free ones (recvmsg(2)). truncationError checks that by opening
// a descriptor.
func truncationError(lostDescriptors bool) error {
	if lostDescriptors {
		event, err := fdevent.NewEvent()
		if resource.NoDescriptors(err) {
			return resource.Wrap(err)
		}
		_ = event.Close()
	}
	return fmt.Errorf("%w: truncated packet", verbs.ErrProtocol)
}

// parseRights returns all descriptors in the control messages of a packet.
func parseRights(rights []byte) (fds []int) {
	controls, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for i := range controls {
		if passed, err := unix.ParseUnixRights(&controls[i]); err == nil {
			fds = append(fds, passed...)
		}
	}
	return fds
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// PeerCredentials returns the process at the other end of a Unix socket, and its user.
// It is the process that called connect(2) or listen(2); see unix(7), SO_PEERCRED.
func PeerCredentials(fd int) (cm.Credentials, error) {
	c, err := peerCredentials(fd)
	if err != nil {
		return cm.Credentials{}, err
	}
	return cm.Credentials{PID: c.Pid, UID: c.Uid, GID: c.Gid}, nil
}

// Listener returns the process that listens on a name, and its user. It connects to the
// listener to find out.
func Listener(name string) (cm.Credentials, error) {
	fd, err := New()
	if err != nil {
		return cm.Credentials{}, err
	}
	defer unix.Close(fd)
	if err := Connect(fd, name); err != nil {
		return cm.Credentials{}, err
	}
	return PeerCredentials(fd)
}
