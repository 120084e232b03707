package reactor

import "github.com/rdmaloop/rdmaloop/cm"

// A peerProcess holds the credentials of the peer's process, if they are known.
type peerProcess struct {
	credentials cm.Credentials
	known       bool
}

// processOf returns the credentials of the process that is the peer of the ID.
func processOf(id *cm.ID) (p peerProcess) {
	p.credentials, p.known = id.Credentials()
	return p
}

// Credentials returns the credentials of the process that requests the connection. The
// second result is false if they are not known. Only the local path of provider/soft
// knows them, and it refuses users outside soft.Config.AllowedUsers. Source: unix(7),
// SO_PEERCRED.
func (r *ConnRequest) Credentials() (cm.Credentials, bool) {
	return r.process.credentials, r.process.known
}

// Credentials returns the process and the user of the peer, see ConnRequest.Credentials.
// For a dialing side, the peer is the process that listens. The result stays the same
// after OnClose.
func (c *Conn) Credentials() (cm.Credentials, bool) {
	return c.process.credentials, c.process.known
}
