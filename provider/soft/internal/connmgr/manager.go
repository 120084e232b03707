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

// A Config has the settings of a Manager, and parts of its device. The Manager does not
// own these parts. All fields must be set.
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
	// Largest number of connections on the wire path from one source address to all
	// listeners together.
	MaxConnsPerAddress int
	WirePort           uint16 // UDP port of the wire path, the same at both ends
	// Shards is the number of shards of the device. The queue pair with the number n
	// belongs to the shard with the number n % Shards.
	Shards uint32

	Users     access.Users               // users of this host who may be peers
	UserLimit *access.UserLimit          // limits the number of connections of each user
	Errors    *access.ErrorLimit         // refuses requests of sources with several access errors
	Spare     *unixsock.SpareDescriptors // open descriptors, which are closed when no others are free
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

// New returns the connection management of a device. A Manager needs no Close, but its
// event channels do.
func New(cfg *Config) *Manager {
	m := &Manager{Config: *cfg, limits: cfg.Device.Attr()}
	m.mux = newMADMux(m, &udpMADs{cfg.Ports, cfg.WirePort, cfg.WireCounts})
	return m
}

// shardOf returns the number of the shard to which a queue pair belongs.
func (m *Manager) shardOf(qpn uint32) uint32 { return qpn % m.Shards }

// shardID returns the identity of the shard to which a queue pair belongs.
func (m *Manager) shardID(qpn uint32) shm.ShardID {
	return shm.ShardID{Device: m.limits.NodeGUID, Number: m.shardOf(qpn)}
}

// OpenChannel implements cm.Transport. It opens an event channel.
func (m *Manager) OpenChannel() (cm.TransportChannel, error) {
	ch, err := openChannel(m)
	if err != nil {
		return nil, operr.Wrap("open event channel", resource.Wrap(err))
	}
	return ch, nil
}

// Receive handles a packet that was sent to queue pair 1. Other hosts send their
// messages of connection management there. Receive does not use the packet after it has
// returned. It returns false if the packet is invalid, for example because of a wrong
// Q_Key.
func (m *Manager) Receive(p wire.Packet, from *udp.Header) (taken bool) {
	return m.mux.receive(p, from)
}

var _ cm.Transport = (*Manager)(nil)
