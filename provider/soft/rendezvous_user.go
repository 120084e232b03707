//go:build linux

package soft

import (
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
