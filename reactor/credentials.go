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

// Credentials returns the credentials of the process that requests the connection. If
// they are not known, the second result is false. They are known only on the local path
// of provider/soft. Source: unix(7), SO_PEERCRED.
func (r *ConnRequest) Credentials() (cm.Credentials, bool) {
	return r.process.credentials, r.process.known
}

// Credentials returns the credentials of the peer's process: see
// ConnRequest.Credentials. For a dialing side, the peer is the process that listens. The
// result stays the same after OnClose.
func (c *Conn) Credentials() (cm.Credentials, bool) {
	return c.process.credentials, c.process.known
}
