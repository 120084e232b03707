package reactor

import "github.com/rdmaloop/rdmaloop/cm"

// A peerProcess holds the credentials of the peer's process, if they are known.
type peerProcess struct {
	credentials cm.Credentials
	known       bool
}

// processOf returns the credentials of the peer of id.
func processOf(id *cm.ID) (p peerProcess) {
	p.credentials, p.known = id.Credentials()
	return p
}

// Credentials returns the process and the user that request the connection. It
// returns false if they are not known: on the wire path, even if the peer is on this
// host, and with librdmacm. On the local path provider/soft has already refused
// processes of users that are not in soft.Config.AllowedUsers. See unix(7), SO_PEERCRED.
func (r *ConnRequest) Credentials() (cm.Credentials, bool) {
	return r.process.credentials, r.process.known
}

// Credentials returns the process and the user of the peer, see ConnRequest.Credentials.
// On the dialing side this is the process that listens. The result stays the same after
// OnClose.
func (c *Conn) Credentials() (cm.Credentials, bool) {
	return c.process.credentials, c.process.known
}
