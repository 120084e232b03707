//go:build linux

package soft

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// addressWatch is a netlink socket that becomes readable when an address of this
// network namespace is added or removed (rtnetlink(7)). The contents of its messages
// are not used: addressesChanged lists all addresses itself, so a lost message does
// no harm. The lock of its channel guards it.
type addressWatch struct {
	fd       int
	observer interface{ addressesChanged() }
}

// watchAddresses makes the channel call to.addressesChanged when addresses change. It
// needs no privilege.
func watchAddresses(ch *channel, to interface{ addressesChanged() }) (*addressWatch, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, addressWatchError(err)
	}
	const groups = unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR
	n := &addressWatch{fd: fd, observer: to}
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups})
	if err == nil {
		err = ch.watch(fd, n)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, addressWatchError(err)
	}
	return n, nil
}

func addressWatchError(err error) error {
	return fmt.Errorf("later address changes are not noticed: %w", err)
}

// addressBatch is the largest number of messages that one call of readable receives;
// arbitrary. If there are more, the descriptor stays readable.
const addressBatch = 64

// readable implements readableSource. It first receives all waiting messages, so that a
// burst of changes makes addressesChanged list the addresses only once.
func (w *addressWatch) readable() {
	// The contents of a message are not used: recv(2) drops what does not fit.
	var buf [1]byte
	for i := range addressBatch {
		_, _, err := unix.Recvfrom(w.fd, buf[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		if errors.Is(err, unix.EAGAIN) && i == 0 {
			return // no address has changed
		}
		// ENOBUFS means that messages were lost.
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			break
		}
	}
	w.observer.addressesChanged()
}

// move moves the watch to another channel. w may be nil.
func (w *addressWatch) move(from, to *channel) error {
	if w == nil {
		return nil
	}
	if err := to.watch(w.fd, w); err != nil {
		return err
	}
	from.unwatch(w.fd)
	return nil
}

func (w *addressWatch) close(ch *channel) {
	if w == nil {
		return
	}
	ch.unwatch(w.fd)
	_ = unix.Close(w.fd)
}

var _ readableSource = (*addressWatch)(nil)
