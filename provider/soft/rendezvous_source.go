//go:build linux

package soft

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A request names the addresses of both sides, and the application sees them. So they
// are compared with the client's socket, as the kernel reports it.
//
//   - Both addresses are of this host.
//   - The socket of the client has the name that reserves the source port, for the
//     source address or for a wildcard that covers it. Only one socket of the host
//     can have a name, and only while it is open.
//   - The name of a port that several IDs share (REUSEADDR) has a number that makes
//     it another name. Then nobody may hold the port for himself, but for a
//     listener of the same user.
//
// A process can still hold the name of an address on a port that another process
// holds on a wildcard. Whom to trust is for the credentials to say.

// addresses returns the addresses of both sides that a request names.
func addresses(m message) (endpoints, bool) {
	switch m := m.(type) {
	case *requestMsg:
		return m.endpoints, true
	case *lookupMsg:
		return m.endpoints, true
	}
	return endpoints{}, false
}

// checkSource checks the addresses of a request against the client's socket. Other
// messages have no addresses.
func (c *client) checkSource(m message) error {
	e, ok := addresses(m)
	if !ok {
		return nil
	}
	src, dst := e.src.Addr(), e.dst.Addr()
	if !c.ch.isOwn(src) || !c.ch.isOwn(dst) {
		return fmt.Errorf("%w: request from %v to %v, which are not both of this host", verbs.ErrProtocol, src, dst)
	}
	name, _ := peerName(c.fd)
	s, ok := parseSpot(c.gate.id.ps, name)
	if !ok || !s.covers(e.src) {
		return fmt.Errorf("%w: request from %v by the socket %q", verbs.ErrProtocol, e.src, name)
	}
	if s.shared != 0 && heldByOthers(c.gate.id.ps, e.src, c.peer.UID) {
		return fmt.Errorf("%w: request from %v, which another process holds", verbs.ErrProtocol, e.src)
	}
	return nil
}

// ownAddrs caches whether addresses that requests have named belong to this host.
// Asking the system takes about as long as the rest of the check.
type ownAddrs struct {
	since time.Time // time of the oldest entry
	known map[netip.Addr]bool
}

const (
	// ownAddrsFor is how long an entry is valid. The number is arbitrary.
	ownAddrsFor = time.Second
	// maxOwnAddrs bounds the memory that clients can make the channel use, because all
	// addresses of a prefix can be local to a host. The number is arbitrary.
	maxOwnAddrs = 64
)

// isOwn reports whether an address in a request belongs to this host. Loopback
// addresses always do.
func (ch *channel) isOwn(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	own, now := &ch.own, ch.clock()
	if own.known == nil || now.Sub(own.since) >= ownAddrsFor || len(own.known) >= maxOwnAddrs {
		own.since, own.known = now, make(map[netip.Addr]bool)
	}
	is, ok := own.known[a]
	if !ok {
		is = onThisHost(a)
		own.known[a] = is
	}
	return is
}

// heldByOthers reports whether a socket holds the address and port without sharing
// them. It ignores a socket on which a process of the given user listens. To find
// out, it binds each name for a moment. A process that tries to bind the address at
// that moment may fail; it would fail anyway, because the port is shared.
func heldByOthers(ps cm.PortSpace, at netip.AddrPort, user uint32) bool {
	for _, s := range targets(ps, at) {
		uid, err := listenerUser(s.name())
		switch {
		case err == nil && uid == user:
		case errors.Is(err, unix.ECONNREFUSED) && !nameIsBound(s.name()):
		default:
			return true
		}
	}
	return false
}

// listenerUser returns the user of the process that listens on a name.
func listenerUser(name string) (uint32, error) {
	fd, err := newSocket()
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return 0, err
	}
	peer, err := peerCredentials(fd)
	return peer.UID, err
}

// refuseSource refuses a request whose addresses do not belong to the client.
func (c *client) refuseSource() {
	c.ch.dev.local.inc(rcvdAddressErr)
	_ = c.send(c.gate.id.refusal(cm.RejectInvalidGID, nil, false)) // sending fails if the client has left
}
