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

// A Config has the settings of a Manager, and the parts of the device that the Manager
// uses. The Manager does not own these parts. All fields must be set.
type Config struct {
	Device verbs.Device // device whose IDs the manager makes
	Engine Engine       // engine of the device
	Start  time.Time    // time at which the clock of all timers is zero

	// Paths that the device may use: the local path, the wire path, or both.
	Local, Wire bool
	// ListenOnAll makes Listen return an error if a listener can not be opened at one of its
	// addresses.
	ListenOnAll bool
	// Largest number of half-open connections and SIDR requests of one listener, and the
	// largest number of them from one source address.
	MaxHalfOpen, MaxHalfOpenPerAddress int
	// Largest number of connections that one source address may have on the wire path,
	// counted over all listeners.
	MaxConnsPerAddress int
	WirePort           uint16 // UDP port of the wire path on this host and on all peers
	// Shards is the number of shards of the device. The queue pair with the number n
	// belongs to the shard with the number n % Shards.
	Shards uint32

	Users     access.Users      // users of this host whose processes may be peers
	UserLimit *access.UserLimit // limit of the connections of each user
	// limit of access errors; requests of a source above the limit are refused
	Errors *access.ErrorLimit
	// descriptors kept open, to be closed when the process has no free ones
	Spare *unixsock.SpareDescriptors
	Ends  *shm.Ends  // shared memory of the connections on the local path
	Ports *udp.Ports // UDP ports of the device
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
	// transports of the paths that the device uses; nil for a path that it does not use
	local Transport
	wire  WireTransport
}

// New returns the Manager of a device. A Manager need not be closed, but each event
// channel that it has opened must be closed.
func New(cfg *Config) *Manager {
	m := &Manager{Config: *cfg, limits: cfg.Device.Attr()}
	if cfg.Local {
		m.local = newUnixTransport(&unixConfig{
			GUID: m.limits.NodeGUID, Shards: cfg.Shards, AlsoWire: cfg.Wire,
			Users: cfg.Users, UserLimit: cfg.UserLimit, Errors: cfg.Errors, Spare: cfg.Spare, Ends: cfg.Ends, Counts: cfg.LocalCounts,
		})
	}
	if cfg.Wire {
		m.mux = newMADMux(&madConfig{
			Attr: m.limits, AlsoLocal: cfg.Local,
			MaxHalfOpen: cfg.MaxHalfOpen, MaxHalfOpenPerAddress: cfg.MaxHalfOpenPerAddress, MaxConnsPerAddress: cfg.MaxConnsPerAddress,
			Port: cfg.WirePort, Ports: cfg.Ports, Errors: cfg.Errors, Counts: cfg.WireCounts, LocalCounts: cfg.LocalCounts,
		})
		m.wire = m.mux
	}
	return m
}

// OpenChannel implements cm.Transport. It opens an event channel.
func (m *Manager) OpenChannel() (cm.TransportChannel, error) {
	ch, err := openChannel(m)
	if err != nil {
		return nil, operr.Wrap("open event channel", resource.Wrap(err))
	}
	return ch, nil
}

// Receive handles a packet that has arrived for queue pair 1, which receives the
// connection management messages of other hosts. Receive does not keep the packet. It
// returns false if the packet is invalid, for example because of a wrong Q_Key.
func (m *Manager) Receive(p wire.Packet, from *udp.Header) (taken bool) {
	return m.mux.Receive(p, from)
}

var _ cm.Transport = (*Manager)(nil)
