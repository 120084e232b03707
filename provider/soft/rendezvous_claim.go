//go:build linux

package soft

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A claim is what a client of a listener holds from when it is admitted until its
// socket is closed: a place among the connections of its user, and until it has a bell
// the room for that descriptor. The zero value holds nothing.
type claim struct {
	dev  *device // nil: holds nothing
	uid  uint32
	room int // a descriptor that stands in for the bell; -1: given up for it
}

// admit makes the claim of a client. Where there is no room for it, it says as which
// counter that counts.
func (d *device) admit(uid uint32) (c claim, refused counterID, ok bool) {
	if !d.conns.take(uid) {
		return claim{}, userLimitErr, false
	}
	if d.spare.fill() {
		if room, err := newEventfd(); err == nil {
			return claim{dev: d, uid: uid, room: room}, 0, true
		}
	}
	d.conns.give(uid)
	return claim{}, noDescriptorsErr, false
}

// giveRoom closes the descriptor that stands in for the bell.
func (c *claim) giveRoom() {
	if c.dev != nil && c.room >= 0 {
		_ = unix.Close(c.room)
		c.room = -1
	}
}

// drop gives up the claim.
func (c *claim) drop() {
	if c.dev != nil {
		c.giveRoom()
		c.dev.conns.give(c.uid)
		c.dev = nil
	}
}

// refuseForRoom refuses a client for which there is no room, and counts the cause.
// Nothing that it sent is read.
func (g *localGate) refuseForRoom(fd int, cause counterID) {
	dev := g.ch.dev
	dev.local.inc(cause)
	m := message(&rejectMsg{reason: cm.RejectNoResources})
	if g.id.ps == cm.UDP {
		m = &lookupReplyMsg{status: cm.SIDRNoQP}
	}
	_ = sendPacket(fd, encode(m), nil) // it may have left already
	_ = unix.Close(fd)
	dev.spare.fill()
}

// oldestOfBusiest is the client to be sent away for a new one of a user: the oldest
// of the user who has the most clients, the new one included. So a user who connects
// and says nothing pushes out own clients only.
func (g *localGate) oldestOfBusiest(newcomer uint32) *client {
	count := map[uint32]int{newcomer: 1}
	for _, c := range g.clients {
		count[c.peer.UID]++
	}
	oldest := g.clients[0]
	for _, c := range g.clients {
		if count[c.peer.UID] > count[oldest.peer.UID] {
			oldest = c
		}
	}
	return oldest
}
