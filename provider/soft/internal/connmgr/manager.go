//go:build linux

package connmgr

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Config has the settings of a Manager and the parts of its device. All fields must be
// set. The Manager does not own the parts.
type Config struct {
	Device verbs.Device // device whose IDs the manager makes
	Engine Engine       // queue pairs of the device
	Start  time.Time    // origin of the times of all timers

	// Which paths the device may use; at least one is true.
	Local, Wire bool
	// ListenOnAll makes Listen fail unless every address is served on each path.
	ListenOnAll bool
	// Largest numbers of half-open connections and lookups of a listener: in total, and
	// for one source address.
	MaxHalfOpen, MaxHalfOpenPerAddress int
	// Largest number of connections on the wire path from one source address to the
	// listeners.
	MaxConnsPerAddress int
	WirePort           uint16 // UDP port of the wire path, the same at both ends
	// Shards is the number of shards. The number of a queue pair modulo Shards is the
	// number of its shard.
	Shards uint32

	Users     access.Users               // users of this host who may be peers
	UserLimit *access.UserLimit          // limits the connections of each user
	Errors    *access.ErrorLimit         // delays the requests of sources with access errors
	Spare     *unixsock.SpareDescriptors // descriptors that are closed when a listener needs free ones
	Ends      *shm.Ends                  // memory shared with other shards
	Ports     *udp.Ports                 // UDP ports of the device
	// FreePorts returns the system's range of ephemeral ports.
	FreePorts func() (hostport.PortRange, error)

	LocalCounts *counters.Set // counters of the local path
	WireCounts  *counters.Set // counters of the wire path
}

// A Manager is the connection management of one device. It implements cm.Transport. Any
// goroutine may call its methods.
type Manager struct {
	Config
	limits verbs.DeviceAttr // attributes of the device
	mux    *madMux
}

// New returns the connection management of a device. Only its event channels have to be
// closed.
func New(cfg *Config) *Manager {
	m := &Manager{Config: *cfg, limits: cfg.Device.Attr()}
	m.mux = newMADMux(m, &udpMADs{cfg.Ports, cfg.WirePort, cfg.WireCounts})
	return m
}

// shardOf returns the number of the shard of a queue pair.
func (m *Manager) shardOf(qpn uint32) uint32 { return qpn % m.Shards }

// shardID returns the identity of the shard of a queue pair.
func (m *Manager) shardID(qpn uint32) shm.ShardID {
	return shm.ShardID{Device: m.limits.NodeGUID, Number: m.shardOf(qpn)}
}

// OpenChannel opens an event channel; see cm.Transport.
func (m *Manager) OpenChannel() (cm.TransportChannel, error) {
	ch, err := openChannel(m)
	if err != nil {
		return nil, operr.Wrap("open event channel", resource.Wrap(err))
	}
	return ch, nil
}

// Receive handles a packet to queue pair 1, and does not keep it. It returns false for
// an invalid packet, for example with a wrong Q_Key.
func (m *Manager) Receive(p wire.Packet, from *udp.Header) (taken bool) {
	return m.mux.receive(p, from)
}

var _ cm.Transport = (*Manager)(nil)
