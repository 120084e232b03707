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

// checkUser returns nil if the peer is on another host, or if the processes that have
// the UDP port of RoCE on its address, and the port from which it has sent, belong to
// allowed users. A fromPort of 0 means that it has not sent anything. Otherwise checkUser
// returns a *cm.UserError, errPortNotHeld, or the error for which the user is not known.
func (ch *channel) checkUser(p *madPort, peer netip.Addr, fromPort uint16) error {
	users, wirePort := &ch.dev.users, ch.dev.cfg.WirePort
	if users.allowsAll() {
		return nil
	}
	if own, err := ch.isOwn(peer); !own || err != nil {
		return err
	}
	if err := p.checkHolders(users, netip.AddrPortFrom(peer, wirePort)); err != nil || fromPort == 0 || fromPort == wirePort {
		return err
	}
	return p.checkHolders(users, netip.AddrPortFrom(peer, fromPort))
}

// checkHolders returns nil if processes have a UDP port of this host, and all of them
// belong to allowed users. The errors are those of checkUser.
func (p *madPort) checkHolders(users *userPolicy, at netip.AddrPort) error {
	uids, err := p.x.network.holders(p.local, at)
	switch {
	case err != nil:
		return fmt.Errorf("the user of UDP %v is not known: %w", at, err)
	case len(uids) == 0:
		return errPortNotHeld
	}
	for _, uid := range uids {
		if !users.allows(uid) {
			return &cm.UserError{UID: uid, Name: fmt.Sprintf("UDP %v", at)}
		}
	}
	return nil
}

// holders implements madNetwork.
func (n *udpMADs) holders(local netip.Addr, peer netip.AddrPort) ([]uint32, error) {
	return udpHolders(netip.AddrPortFrom(local, n.ports.udpPort), peer)
}

// checkPeer is checkUser for a request that is to be sent.
func (c *wireCarrier) checkPeer() error { return c.ch.checkUser(c.port, c.remote, 0) }

// mayNotAsk fails a request that can not be sent because of an error of checkPeer. An
// event gives the reason.
func (c *wireCarrier) mayNotAsk(err error) {
	var foreign *cm.UserError
	switch {
	case errors.As(err, &foreign):
		c.ch.dev.local.inc(skippedUserErr)
		c.id.nobodyListens(foreign)
	case errors.Is(err, errPortNotHeld):
		c.portIsFree(netip.AddrPortFrom(c.remote, c.ch.dev.cfg.WirePort))
	default:
		c.id.dialFailed(err)
	}
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
