//go:build linux

package soft

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

// The wire path can also lead to a process of this host, which has the UDP port on
// another address of the host. Config.AllowedUsers applies to such processes too. A
// packet does not name the process that has sent it. But all answers and data go to
// the process that has the UDP port of RoCE on the peer's address, and the kernel
// reports the user of that process.
//
// The user is checked before a request is sent, and when one is received. If the
// peer's process ends later, a process of another user may take its port, and the
// connection is not protected from that process: RoCEv2 has no authentication.

// errPortNotHeld says that a request came from an address of this host on which no
// process has the UDP port of RoCE.
var errPortNotHeld = fmt.Errorf("nobody receives there: %w", unix.ECONNREFUSED)

// checkUser returns nil if the peer is on another host, or is a process of an allowed
// user. Otherwise it returns a *cm.UserError, errPortNotHeld, or the error for which
// the user is not known.
func (ch *channel) checkUser(p *madPort, peer netip.Addr) error {
	users := &ch.dev.users
	if users.allowsAll() {
		return nil
	}
	if own, err := ch.isOwn(peer); !own || err != nil {
		return err
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

// holders implements madNetwork.
func (n *udpMADs) holders(local, peer netip.Addr) ([]uint32, error) {
	port := n.ports.udpPort
	return udpHolders(netip.AddrPortFrom(local, port), netip.AddrPortFrom(peer, port))
}

// mayAsk reports whether a request may be sent to the peer now. If not, it fails the
// request, and an event gives the reason.
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

// refuseUser counts a request for which checkUser has returned err. It refuses the
// request, unless no process would receive the refusal. If the check failed because this
// process has no free descriptor, refuseUser drops the request; the peer repeats it.
func (g *wireGate) refuseUser(n *newcomer, err error) {
	if outOfDescriptors(err) {
		g.x.counts.inc(cmRequestDropped)
		return
	}
	g.ch.dev.local.inc(rcvdUserErr)
	if errors.Is(err, errPortNotHeld) {
		return
	}
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	g.x.turnAway(n)
}
