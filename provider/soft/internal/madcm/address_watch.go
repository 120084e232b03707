//go:build linux

package madcm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
)

// addressWatch is a netlink socket. It becomes readable when an address in this network
// namespace changes (rtnetlink(7)). The lock of its channel guards it.
type addressWatch struct {
	fd int
	// listener whose addresses are watched; changes call its method addressesChanged
	listener *madListener
}

// watchAddresses opens an addressWatch for the listener l on the channel ch. This needs
// no privilege.
func watchAddresses(ch *madChannel, l *madListener) (*addressWatch, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, addressWatchError(err)
	}
	const groups = unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR
	n := &addressWatch{fd: fd, listener: l}
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups})
	if err == nil {
		err = ch.Watch(fd, n)
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

// addressBatch is the largest number of messages that one call of OnReady receives. The
// number is arbitrary.
const addressBatch = 64

// OnReady implements fdevent.Handler. It receives messages, and then calls
// addressesChanged once for all of them.
func (w *addressWatch) OnReady(int, uint32) {
	// One byte is enough, because the content of a message is not needed. recv(2) discards
	// the rest.
	var buf [1]byte
	for i := range addressBatch {
		_, _, err := unix.Recvfrom(w.fd, buf[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		if errors.Is(err, unix.EAGAIN) && i == 0 {
			// There is no message, so no address has changed.
			return
		}
		// ENOBUFS means that messages were lost. Addresses may have changed.
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			break
		}
	}
	w.listener.addressesChanged()
}

// move moves the watch to another channel. It does nothing if w is nil.
func (w *addressWatch) move(from, to *madChannel) error {
	if w == nil {
		return nil
	}
	if err := to.Watch(w.fd, w); err != nil {
		return err
	}
	from.Unwatch(w.fd)
	return nil
}

func (w *addressWatch) close(ch *madChannel) {
	if w == nil {
		return
	}
	ch.Unwatch(w.fd)
	_ = unix.Close(w.fd)
}

var _ fdevent.Handler = (*addressWatch)(nil)
