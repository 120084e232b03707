//go:build linux

package soft

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// A claim counts a client of a listener from its admission until its socket is
// closed. It is one of the connections of its user. Until the doorbell of the
// connection is made, it also reserves a descriptor for it. The zero value claims
// nothing.
type admission struct {
	dev     *device // device of the claim; nil if the claim is empty
	uid     uint32
	spareFD int // a descriptor reserved for the doorbell; -1 once it was closed
}

// admit makes the claim of a client. If there is no room for the client, it returns
// the counter that counts the refusal.
func (d *device) admit(uid uint32) (c admission, refused counterID, ok bool) {
	if !d.conns.acquire(uid) {
		return admission{}, userLimitErr, false
	}
	if d.spare.fill() {
		if room, err := eventfd.New(); err == nil {
			return admission{dev: d, uid: uid, spareFD: room}, 0, true
		}
	}
	d.conns.release(uid)
	return admission{}, noDescriptorsErr, false
}

// useSpareFD closes the descriptor that is reserved for the doorbell.
func (c *admission) useSpareFD() {
	if c.dev != nil && c.spareFD >= 0 {
		_ = unix.Close(c.spareFD)
		c.spareFD = -1
	}
}

// drop ends the claim.
func (c *admission) release() {
	if c.dev != nil {
		c.useSpareFD()
		c.dev.conns.release(c.uid)
		c.dev = nil
	}
}

// refuseNoResources refuses a client for lack of room, counts the cause, and reads
// nothing from the client.
func (l *unixListener) refuseNoResources(fd int, cause counterID) {
	dev := l.ch.dev
	dev.local.inc(cause)
	m := message(&rejMsg{reason: cm.RejectNoResources})
	if l.id.ps == cm.UDP {
		m = &sidrRepMsg{status: cm.SIDRNoQP}
	}
	_ = sendPacket(fd, encode(m), nil) // sending fails if the client has left
	_ = unix.Close(fd)
	dev.spare.fill()
}

// oldestOfBusiest returns the client to be closed for a new client of a user: the
// oldest client of the user who has the most, the new one included. So a user with
// many silent clients loses only clients of the same user.
func (l *unixListener) oldestOfBusiest(newcomer uint32) *client {
	count := map[uint32]int{newcomer: 1}
	for _, c := range l.clients {
		count[c.peer.UID]++
	}
	oldest := l.clients[0]
	for _, c := range l.clients {
		if count[c.peer.UID] > count[oldest.peer.UID] {
			oldest = c
		}
	}
	return oldest
}
