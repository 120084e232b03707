package providertest

import (
	"os"

	"github.com/rdmaloop/rdmaloop/cm"
)

func credentialsCases() []testCase {
	return []testCase{
		{"of both ends of a connection", connectionCredentials},
		{"of both ends of a datagram lookup", lookupCredentials},
	}
}

// wantPeer checks that the ID's credentials are those of this process. Both ends of the
// connection are in this process. If the provider does not support credentials, they must
// be unknown.
func (r *rig) wantPeer(id *cm.ID) {
	r.t.Helper()
	c, known := id.Credentials()
	r.Equal(r.opts.Credentials, known)
	want := cm.Credentials{}
	if known {
		want = cm.Credentials{PID: int32(os.Getpid()), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	}
	r.Equal(want, c)
}

// wantNoPeer checks that the credentials are unknown.
func (r *rig) wantNoPeer(id *cm.ID) {
	r.t.Helper()
	c, known := id.Credentials()
	r.False(known)
	r.Zero(c)
}

func connectionCredentials(r *rig) {
	p := r.pair(nil)
	r.wantPeer(p.a.id)
	r.wantPeer(p.b.id)
	r.NoError(p.b.closeQP())
	r.NoError(p.b.id.Close())
	r.wantPeer(p.a.id)
	r.wantNoPeer(p.b.id)
}

func lookupCredentials(r *rig) {
	r.requires(lacksUD)
	listener := r.listen(cm.UDP)
	r.wantNoPeer(listener)
	id := r.resolve(cm.UDP, listener.LocalAddr())
	r.wantNoPeer(id)
	r.NoError(id.Connect(&cm.ConnParam{QPNum: 2}))
	asked := r.await(listener, cm.ConnectRequest).id
	r.closing("passive id", asked.Close)
	r.wantPeer(asked)
	r.NoError(asked.Accept(&cm.ConnParam{QPNum: 3}))
	r.await(id, cm.Established)
	r.wantPeer(id)
}
