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

// A request on the local path has the addresses of both sides, which the application
// sees. The client chooses these addresses. So checkSource compares them with the facts
// that the kernel reports about the client's socket:
//
//   - Both addresses must belong to this host.
//   - The client's socket must have the name that reserves the source port, for the
//     source address or for a wildcard that covers it. Only one socket of the host can
//     have a name, and only while the socket is open.
//   - If several IDs share the port (REUSEADDR), the name of each socket also contains a
//     number, so a process can bind such a name although another process holds the port.
//     Therefore checkSource refuses the request if a socket holds the port without
//     sharing it. It makes an exception for the listening sockets of the client's user.
//
// One process can still hold the name of an address while another process holds the name
// of a wildcard with the same port. An application that has to distinguish such
// processes uses the credentials of the peer.

// addresses returns the addresses of both sides in a request. It returns false for other
// messages.
func addresses(m message) (endpoints, bool) {
	switch m := m.(type) {
	case *reqMsg:
		return m.endpoints, true
	case *sidrReqMsg:
		return m.endpoints, true
	}
	return endpoints{}, false
}

// checkSource checks the addresses of a request against the client's socket. Other
// messages have no addresses. The error matches verbs.ErrProtocol if the addresses do
// not belong to the client. Any other error means that the check was not possible.
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

// heldByOthers reports whether a socket holds the address and port without sharing them.
// It ignores a socket on which a process of the given user listens. To check a name that
// nobody listens on, heldByOthers binds the name for a moment. Another process that
// tries to bind the address at that moment may fail. But its bind would fail in any
// case, because the port is shared. An error means that heldByOthers could not find out
// the holder: this process has no free descriptor (EMFILE, ENFILE), or the backlog of
// the listener is full (EAGAIN).
func heldByOthers(ps cm.PortSpace, at netip.AddrPort, user uint32) (bool, error) {
	for _, s := range hostport.Targets(ps, at) {
		uid, err := unixsock.ListenerUser(s.Name())
		held := err == nil && uid != user
		switch {
		case errors.Is(err, unix.ECONNREFUSED): // No process listens on the name, but a socket may have it.
			held, err = unixsock.IsBound(s.Name())
		// A security module forbids the connection to the listener. The user of the
		// listener is not known, so the listener counts as a holder.
		case isNoListener(err):
			held, err = true, nil
		}
		if held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// refuseSource refuses a request for which checkSource has returned an error. If the
// error means that the check was not possible, the reason of the refusal is
// cm.RejectNoResources.
func (c *client) refuseSource(err error) {
	cause, reason := counters.RcvdAddressErr, cm.RejectInvalidGID
	if resource.NoDescriptors(err) {
		cause = counters.NoDescriptorsErr
	}
	if !errors.Is(err, verbs.ErrProtocol) {
		reason = cm.RejectNoResources
	}
	c.ch.m.LocalCounts.Inc(cause)
	// An error of send is ignored: it means that the client has closed its socket.
	_ = c.send(c.listener.id.refusal(reason, nil, false))
}
