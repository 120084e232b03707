package reactor

import "github.com/rdmaloop/rdmaloop/cm"

// A peerProcess has the credentials of the process at the other end, if they are
// known.
type peerProcess struct {
	credentials cm.Credentials
	known       bool
}

func processOf(id *cm.ID) (p peerProcess) {
	p.credentials, p.known = id.Credentials()
	return p
}

// Credentials returns the process and the user that connect. It returns false where
// they are not known: on the wire path, also from this host, and with librdmacm. On the
// local path provider/soft has already refused processes of users that
// soft.Config.AllowedUsers excludes. Source: unix(7), SO_PEERCRED.
func (r *ConnRequest) Credentials() (cm.Credentials, bool) {
	return r.process.credentials, r.process.known
}

// Credentials returns the process and the user at the other end, like
// ConnRequest.Credentials. On the dialing side that is the process that listens. The
// result stays the same after OnClose.
func (c *Conn) Credentials() (cm.Credentials, bool) {
	return c.process.credentials, c.process.known
}
