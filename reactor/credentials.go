package reactor

import "github.com/rdmaloop/rdmaloop/cm"

// peerProcess is the process at the other end of a connection.
type peerProcess struct {
	credentials cm.Credentials
	known       bool
}

func processOf(id *cm.ID) (p peerProcess) {
	p.credentials, p.known = id.Credentials()
	return p
}

// Credentials are the process and the user that connect, or false where they are
// not known: on the wire path, from this host too, and with librdmacm. They belong to
// a process that provider/soft lets connect: see soft.Config.AllowedUsers. Source:
// unix(7), SO_PEERCRED.
func (r *ConnRequest) Credentials() (cm.Credentials, bool) {
	return r.process.credentials, r.process.known
}

// Credentials are the process and the user at the other end, as of
// ConnRequest.Credentials. On the dialing side they are those of the process that
// listens. They stay after OnClose.
func (c *Conn) Credentials() (cm.Credentials, bool) {
	return c.process.credentials, c.process.known
}
