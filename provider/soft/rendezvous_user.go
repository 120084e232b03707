//go:build linux

package soft

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

// peerCredentials returns the process and the user at the other end of a
// connected Unix socket: for an accepted socket the process that called
// connect(2), for a connected one the process that called listen(2). See unix(7),
// SO_PEERCRED.
func peerCredentials(fd int) (cm.Credentials, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return cm.Credentials{}, err
	}
	return cm.Credentials{PID: c.Pid, UID: c.Uid, GID: c.Gid}, nil
}

// allowsPeer reports whether the user at the other end of a connected socket may be
// a peer.
func (d *device) allowsPeer(fd int) bool {
	peer, err := peerCredentials(fd)
	return err == nil && d.users.allows(peer.UID)
}

// userRefusal is the answer to a process of a user that is not allowed.
func (g *localGate) userRefusal() message {
	if g.id.ps == cm.UDP {
		return &lookupReplyMsg{status: cm.SIDRReject, user: true}
	}
	return &rejectMsg{reason: cm.RejectConsumer, user: true}
}

// userRefused is the cause of a refusal, if it is that the peer does not allow the
// user of this process.
func userRefused(yes bool) error {
	if !yes {
		return nil
	}
	return &cm.UserError{UID: uint32(os.Geteuid())}
}
