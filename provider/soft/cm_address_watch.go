//go:build linux

package soft

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// addressWatch is a netlink socket that becomes readable when an address of this
// network namespace is added or removed (rtnetlink(7)). What the messages say does
// not matter, so one that gets lost does no harm: whoever is told asks for all
// addresses. The lock of its channel covers it.
type addressWatch struct {
	fd int
	to interface{ addressesChanged() }
}

// watchAddresses has the channel tell when addresses change. It needs no privilege.
func watchAddresses(ch *channel, to interface{ addressesChanged() }) (*addressWatch, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, unnoticed(err)
	}
	const groups = unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR
	n := &addressWatch{fd: fd, to: to}
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups})
	if err == nil {
		err = ch.watch(fd, n)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, unnoticed(err)
	}
	return n, nil
}

func unnoticed(err error) error {
	return fmt.Errorf("addresses that are added later are not noticed: %w", err)
}

// watchBatch is how many messages are taken in one look: an arbitrary bound. When there
// are more, the descriptor stays readable.
const watchBatch = 64

// readable: see watched. All messages that wait are taken first, so that a burst of
// changes costs one question.
func (n *addressWatch) readable() {
	var buf [1]byte // The contents of a message are not needed: recv(2) drops the rest of it.
	for i := range watchBatch {
		_, _, err := unix.Recvfrom(n.fd, buf[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		if errors.Is(err, unix.EAGAIN) && i == 0 {
			return // nothing had happened
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) { // ENOBUFS: some were lost
			break
		}
	}
	n.to.addressesChanged()
}

// move goes over to another channel.
func (n *addressWatch) move(from, to *channel) error {
	if n == nil {
		return nil
	}
	if err := to.watch(n.fd, n); err != nil {
		return err
	}
	from.unwatch(n.fd)
	return nil
}

func (n *addressWatch) close(ch *channel) {
	if n == nil {
		return
	}
	ch.unwatch(n.fd)
	_ = unix.Close(n.fd)
}

var _ watched = (*addressWatch)(nil)
