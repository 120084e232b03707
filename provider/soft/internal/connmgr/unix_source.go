//go:build linux

package connmgr

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// The client chooses the addresses in a request. checkSource compares them with the
// client's socket:
//
//   - Both addresses must belong to this host.
//   - The socket must have the name that reserves the source port, for the source
//     address or a wildcard. Only one open socket can have a name.
//   - IDs that share a port with REUSEADDR have different names, so several processes
//     can have the port. If another socket has the port without sharing it, that socket
//     must be a listening socket of the client's user.
//
// One process can have the name of an address, and another process the name of a
// wildcard with the same port. The credentials of such processes differ.

// addresses returns both addresses of a request, or false for another message.
func addresses(m message) (endpoints, bool) {
	switch m := m.(type) {
	case *reqMsg:
		return m.endpoints, true
	case *sidrReqMsg:
		return m.endpoints, true
	}
	return endpoints{}, false
}

// checkSource checks the addresses of a request against the client's socket. If they are
// wrong, the error matches verbs.ErrProtocol. Any other error means that they could not
// be checked.
func (c *client) checkSource(m message) error {
	e, ok := addresses(m)
	if !ok {
		return nil
	}
	for _, a := range []netip.Addr{e.src.Addr(), e.dst.Addr()} {
		own, err := c.ch.isLocalAddr(a)
		switch {
		case err != nil:
			return err
		case !own:
			return fmt.Errorf("%w: request from %v to %v, which are not both of this host", verbs.ErrProtocol, e.src, e.dst)
		}
	}
	name, _ := unixsock.PeerName(c.fd)
	s, ok := hostport.ParseBindAddr(c.listener.id.ps, name)
	if !ok || !s.Covers(e.src) {
		return fmt.Errorf("%w: request with the source address %v from the socket %q", verbs.ErrProtocol, e.src, name)
	}
	if s.Shared == 0 {
		return nil
	}
	held, err := heldByOthers(c.listener.id.ps, e.src, c.peer.UID)
	switch {
	case err != nil:
		return fmt.Errorf("the holder of %v is not known: %w", e.src, err)
	case held:
		return fmt.Errorf("%w: request with the source address %v, which another process holds", verbs.ErrProtocol, e.src)
	}
	return nil
}

// heldByOthers reports whether a socket has the address without sharing it. Sockets on
// which the given user listens do not count.
//
// An error means a lack of descriptors, or a full backlog (EAGAIN).
func heldByOthers(ps cm.PortSpace, at netip.AddrPort, user uint32) (bool, error) {
	for _, s := range hostport.Targets(ps, at) {
		uid, err := unixsock.ListenerUser(s.Name())
		held := err == nil && uid != user
		switch {
		case errors.Is(err, unix.ECONNREFUSED): // No process listens on the name, but a socket may still have it.
			held, err = unixsock.IsBound(s.Name())
		// A security module has refused the connection, so the user of the listener is
		// not known. It may be another user.
		case isNoListener(err):
			held, err = true, nil
		}
		if held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// refuseSource refuses a request after an error of checkSource. If the check itself
// failed, the reason is cm.RejectNoResources.
func (c *client) refuseSource(err error) {
	cause, reason := counters.RcvdAddressErr, cm.RejectInvalidGID
	if resource.NoDescriptors(err) {
		cause = counters.NoDescriptorsErr
	}
	if !errors.Is(err, verbs.ErrProtocol) {
		reason = cm.RejectNoResources
	}
	c.ch.m.LocalCounts.Inc(cause)
	// If send fails, the client has closed its socket.
	_ = c.send(c.listener.id.refusal(reason, nil, false))
}
