//go:build linux

package unixcm

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// A Config has the settings of a Transport, and the parts of the device that it
// uses. All fields but Observe must be set.
type Config struct {
	Host *hostport.Host // host of the device
	GUID uint64         // node GUID of the device
	// Shards is the number of shards of the device. The queue pair with the number n
	// belongs to the shard with the number n % Shards.
	Shards   uint32
	AlsoWire bool // true if the device has the wire path too

	Users     access.Users      // users of this host whose processes may be peers
	UserLimit *access.UserLimit // limit of the connections of each user
	// limit of access errors; requests of a source above the limit are refused
	Errors *access.ErrorLimit
	// descriptors kept open, to be closed when the process has no free ones
	Spare  *unixsock.SpareDescriptors
	Ends   *shm.Ends // shared memory of the connections
	Counts *counters.Set
	// Observe is called for each message that was sent or received, if it belongs to an
	// exchange whose request is known. It must not keep its arguments. It may be nil.
	Observe func(x *Exchange, m connmgr.Message, sent bool)
}

// An Exchange is what the messages of a connection or lookup have told so far.
type Exchange struct {
	connmgr.Endpoints        // those in the request: Src is the side that has sent it
	Active            bool   // true if this side has sent the request
	ActiveQPN         uint32 // queue pair of the side that has sent the request; 0 in a lookup
	PassiveQPN        uint32 // queue pair of the other side; 0 before a REP
}

// A Transport is the transport of the local path. Its connections use Unix sockets.
type Transport struct{ Config }

// New returns the local path of a device.
func New(cfg *Config) *Transport { return &Transport{*cfg} }

// Connect implements connmgr.Transport. The path of a conn depends on the ID only.
func (t *Transport) Connect(i *connmgr.ID, _, _ netip.Addr) (connmgr.Conn, error) {
	return &conn{t: t, ch: i.Channel(), id: i, fd: -1, exchange: Exchange{Active: true}}, nil
}

// Listen implements connmgr.Transport.
func (t *Transport) Listen(i *connmgr.ID) (connmgr.Listener, error) { return openListener(t, i) }

// shardOf returns the number of the shard to which a queue pair belongs.
func (t *Transport) shardOf(qpn uint32) uint32 { return qpn % t.Shards }

// shardID returns the identity of the shard to which a queue pair belongs.
func (t *Transport) shardID(qpn uint32) shm.ShardID {
	return shm.ShardID{Device: t.GUID, Number: t.shardOf(qpn)}
}

// An admission is the permission of a client to connect to a listener. The client counts
// as a connection of its user until the admission is released. The field spare
// reserves a descriptor for the doorbell of the connection.
type admission struct {
	t   *Transport // nil for the zero value
	uid uint32
	// open descriptor in reserve for the doorbell; nil after useSpare has closed it
	spare *fdevent.Event
}

// admit returns an admission for a client of the user uid. If the user has too many
// connections, or if no descriptor is free, admit returns false. The result refused is
// then the counter for the reason.
func (t *Transport) admit(uid uint32) (a admission, refused counters.ID, ok bool) {
	if !t.UserLimit.Acquire(uid) {
		return admission{}, counters.UserLimitErr, false
	}
	if t.Spare.Fill() {
		if spare, err := fdevent.NewEvent(); err == nil {
			return admission{t: t, uid: uid, spare: spare}, 0, true
		}
	}
	t.UserLimit.Release(uid)
	return admission{}, counters.NoDescriptorsErr, false
}

// useSpare closes the descriptor in reserve, so that the doorbell can be opened.
func (a *admission) useSpare() {
	_ = a.spare.Close()
	a.spare = nil
}

func (a *admission) release() {
	if a.t != nil {
		a.useSpare()
		a.t.UserLimit.Release(a.uid)
		a.t = nil
	}
}
