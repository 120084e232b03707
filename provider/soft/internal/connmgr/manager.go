//go:build linux

package connmgr

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Config has the settings of a Manager, and the parts of the device that the Manager
// uses. The Manager does not own these parts. All fields must be set, except that one of
// the transports may be nil.
type Config struct {
	Device verbs.Device // device whose IDs the manager makes
	Engine Engine       // engine of the device
	Start  time.Time    // time at which the clock of all timers is zero

	// Transports of the local path and of the wire path; nil for a path that the device does
	// not use.
	Local Transport
	Wire  WireTransport
	// ListenOnAll makes Listen return an error if a listener can not be opened at one of its
	// addresses.
	ListenOnAll bool
	// FreePorts returns the system's range of ephemeral ports.
	FreePorts func() (hostport.PortRange, error)
}

// A Manager is the connection management of one device. It implements cm.Transport. Any
// goroutine may call its methods.
type Manager struct {
	Config
	limits verbs.DeviceAttr // attributes of the device
}

// New returns the Manager of a device. A Manager need not be closed, but each event
// channel that it has opened must be closed.
func New(cfg *Config) *Manager { return &Manager{Config: *cfg, limits: cfg.Device.Attr()} }

// OpenChannel implements cm.Transport. It opens an event channel.
func (m *Manager) OpenChannel() (cm.TransportChannel, error) {
	ch, err := openChannel(m)
	if err != nil {
		return nil, operr.Wrap("open event channel", resource.Wrap(err))
	}
	return ch, nil
}

var _ cm.Transport = (*Manager)(nil)
