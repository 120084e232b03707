//go:build linux

package soft

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

// The wire path leads to processes of this host, too, when they have a UDP port on
// another of its addresses. They are held to Config.AllowedUsers like those on the local
// path. A packet does not tell the process that it is from, and need not: whoever sent
// it, the answers and the data go to the process that has the UDP port of RoCE on the
// peer's address, and the kernel tells whose that is.
//
// It is asked before a request is sent, and when one is received. A connection whose
// process ends later is not protected from a process of another user who takes its
// port then: RoCEv2 has no authentication.

// errPortNotHeld says that a request came from an address of this host on which no
// process has the UDP port of RoCE.
var errPortNotHeld = fmt.Errorf("nobody receives there: %w", unix.ECONNREFUSED)

// checkUser returns an error unless a peer of a port is on another host, or a process of
// a user who is allowed: a *cm.UserError, errPortNotHeld, or why the user is not known.
func (ch *channel) checkUser(p *madPort, peer netip.Addr) error {
	users := &ch.dev.users
	if users.allowsAll() || !ch.isOwn(peer) {
		return nil
	}
	uids, err := p.x.network.holders(p.local, peer)
	switch {
	case err != nil:
		return fmt.Errorf("the user at %v is not known: %w", peer, err)
	case len(uids) == 0:
		return errPortNotHeld
	}
	for _, uid := range uids {
		if !users.allows(uid) {
			return &cm.UserError{UID: uid, Name: fmt.Sprintf("UDP %v", netip.AddrPortFrom(peer, ch.dev.cfg.WirePort))}
		}
	}
	return nil
}

// holders: see madNetwork.
func (n *udpMADs) holders(local, peer netip.Addr) ([]uint32, error) {
	port := n.ports.udpPort
	return udpHolders(netip.AddrPortFrom(local, port), netip.AddrPortFrom(peer, port))
}

// mayAsk reports whether a request may be sent to the peer now. If not, the request is
// over, and an event says why.
func (c *wireCarrier) mayAsk() bool {
	err := c.ch.checkUser(c.port, c.remote)
	var foreign *cm.UserError
	switch {
	case err == nil:
		return true
	case errors.As(err, &foreign):
		c.ch.dev.local.inc(skippedUserErr)
		c.id.nobodyListens(foreign)
	case errors.Is(err, errPortNotHeld):
		c.portIsFree(netip.AddrPortFrom(c.remote, c.ch.dev.cfg.WirePort))
	default:
		c.id.dialFailed(err)
	}
	return false
}

// refuseUser counts a request that checkUser has an error for, and refuses it if
// anybody would receive that.
func (g *wireGate) refuseUser(n *newcomer, err error) {
	g.ch.dev.local.inc(rcvdUserErr)
	if errors.Is(err, errPortNotHeld) {
		return
	}
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	g.x.turnAway(n)
}
