//go:build linux

package unixcm

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
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
//   - The socket must have the name that reserves the source port, either for the source
//     address or for a wildcard. Only one open socket can have this name.
//   - With REUSEADDR, sockets with different names can share a port. A socket that begins
//     to listen stops sharing its port, but the other sockets stay bound to the port. If
//     the client's socket shares its port, a socket that does not share this port must
//     listen, and must belong to the client's user.
//
// One process can have the name for an address, and another process the name for a
// wildcard with the same port. The client's credentials show which of them has sent the
// request.

// addresses returns the source and destination address of a request. If m is not a
// request, addresses returns false.
func addresses(m connmgr.Message) (connmgr.Endpoints, bool) {
	switch m := m.(type) {
	case *connmgr.REQ:
		return m.Endpoints, true
	case *connmgr.SIDRREQ:
		return m.Endpoints, true
	}
	return connmgr.Endpoints{}, false
}

// checkSource checks the addresses of a request against the client's socket. If an
// address is wrong, the error matches verbs.ErrProtocol. Any other error means that the
// check was not possible.
func (c *client) checkSource(m connmgr.Message) error {
	e, ok := addresses(m)
	if !ok {
		return nil
	}
	for _, a := range []netip.Addr{e.Src.Addr(), e.Dst.Addr()} {
		own, err := c.ch.IsLocalAddr(a)
		switch {
		case err != nil:
			return err
		case !own:
			return fmt.Errorf("%w: request from %v to %v, which are not both of this host", verbs.ErrProtocol, e.Src, e.Dst)
		}
	}
	name, _ := unixsock.PeerName(c.fd)
	s, ok := hostport.ParseBindAddr(c.listener.id.PortSpace(), name)
	if !ok || !s.Covers(e.Src) {
		return fmt.Errorf("%w: request with the source address %v from the socket %q", verbs.ErrProtocol, e.Src, name)
	}
	if s.Shared == 0 {
		return nil
	}
	held, err := heldByOthers(c.listener.id.PortSpace(), e.Src, c.peer.UID)
	switch {
	case err != nil:
		return fmt.Errorf("the holder of %v is not known: %w", e.Src, err)
	case held:
		return fmt.Errorf("%w: request with the source address %v, which another process holds", verbs.ErrProtocol, e.Src)
	}
	return nil
}

// heldByOthers reports whether a socket is bound to the address without sharing it.
// Listeners of the given user do not count.
//
// heldByOthers returns an error if no descriptor is free, or if a listener has a full
// backlog (EAGAIN).
func heldByOthers(ps cm.PortSpace, at netip.AddrPort, user uint32) (bool, error) {
	for _, s := range hostport.Targets(ps, at) {
		uid, err := unixsock.ListenerUser(s.Name())
		held := err == nil && uid != user
		switch {
		// A bound socket that does not listen may have this name.
		case errors.Is(err, unix.ECONNREFUSED):
			held, err = unixsock.IsBound(s.Name())
		// A security module has refused the connection. The user of the listener is therefore
		// unknown, and may be another user.
		case isNoListener(err):
			held, err = true, nil
		}
		if held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// refuseSource refuses a request after checkSource has returned the error err. If the
// check was not possible, the reason of the refusal is cm.RejectNoResources.
func (c *client) refuseSource(err error) {
	cause, reason := counters.RcvdAddressErr, cm.RejectInvalidGID
	if resource.NoDescriptors(err) {
		cause = counters.NoDescriptorsErr
	}
	if !errors.Is(err, verbs.ErrProtocol) {
		reason = cm.RejectNoResources
	}
	c.t.Counts.Inc(cause)
	// If send fails, the client has closed its socket.
	_ = c.Send(c.listener.id.Refusal(reason))
}
