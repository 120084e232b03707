//go:build linux

package soft

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A claim counts a client of a listener from its admission until its socket is
// closed. It is one of the connections of its user. Until the doorbell of the
// connection is made, it also reserves a descriptor for it. The zero value claims
// nothing.
type claim struct {
	dev  *device // device of the claim; nil if the claim is empty
	uid  uint32
	room int // a descriptor reserved for the doorbell; -1 once it was closed
}

// admit makes the claim of a client. If there is no room for the client, it returns
// the counter that counts the refusal.
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

// giveRoom closes the descriptor that is reserved for the doorbell.
func (c *claim) giveRoom() {
	if c.dev != nil && c.room >= 0 {
		_ = unix.Close(c.room)
		c.room = -1
	}
}

// drop ends the claim.
func (c *claim) drop() {
	if c.dev != nil {
		c.giveRoom()
		c.dev.conns.give(c.uid)
		c.dev = nil
	}
}

// refuseForRoom refuses a client for lack of room, counts the cause, and reads
// nothing from the client.
func (g *localGate) refuseForRoom(fd int, cause counterID) {
	dev := g.ch.dev
	dev.local.inc(cause)
	m := message(&rejectMsg{reason: cm.RejectNoResources})
	if g.id.ps == cm.UDP {
		m = &lookupReplyMsg{status: cm.SIDRNoQP}
	}
	_ = sendPacket(fd, encode(m), nil) // sending fails if the client has left
	_ = unix.Close(fd)
	dev.spare.fill()
}

// oldestOfBusiest returns the client to be closed for a new client of a user: the
// oldest client of the user who has the most, the new one included. So a user with
// many silent clients loses only clients of the same user.
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
