//go:build linux

package connmgr

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

func TestMain(m *testing.M) { leak.Main(m) }

const safety = cmside.Safety

// A party is one side of a connection. It has a Manager and a fake device.
type party struct {
	*cmside.Side
	M   *Manager
	Dev *Device
	TC  *Channel // event channel of the party
}

func newParty(t *testing.T) *party {
	t.Helper()
	return openParty(t, &Config{})
}

// newHostParty returns a party that also accepts peers of the user peerproc.User.
func newHostParty(t *testing.T) *party {
	t.Helper()
	return openParty(t, &Config{}, peerproc.User)
}

// openParty makes a party that accepts peers of the given users. Zero fields of cfg get
// their defaults.
func openParty(t *testing.T, cfg *Config, allowed ...uint32) *party {
	t.Helper()
	leak.Watch(t)
	s := &party{Dev: NewDevice()}
	s.M = New(completeConfig(cfg, s.Dev, allowed))
	t.Cleanup(func() {
		if !t.Failed() {
			s.RequireNothingLeft(t)
		}
	})
	s.Side = cmside.Open(t, s, s.Dev)
	return s
}

// defaultHalfOpen is the default of Config.MaxHalfOpen in tests.
const defaultHalfOpen = 512

// testGeometry is the layout of the shared memory in tests.
var testGeometry = shm.Geometry{
	Slots: shm.MinRingSlots, Bytes: shm.MinRingBytes,
}

// completeConfig returns a copy of cfg in which zero fields have their defaults.
func completeConfig(cfg *Config, dev *Device, allowed []uint32) *Config {
	c := *cfg
	c.Device, c.Engine, c.Start = dev, dev, time.Now()
	if !c.Local && !c.Wire {
		c.Local, c.Wire = true, true
	}
	if c.MaxHalfOpen == 0 {
		c.MaxHalfOpen, c.MaxHalfOpenPerAddress = defaultHalfOpen, defaultHalfOpen/2
	}
	if c.MaxConnsPerAddress == 0 {
		c.MaxConnsPerAddress = 4096
	}
	if c.WirePort == 0 {
		c.WirePort = wire.UDPPort
	}
	c.Shards = 1
	c.LocalCounts, c.WireCounts = new(counters.Set), new(counters.Set)
	c.Users = access.NewUsers(allowed)
	c.UserLimit = access.NewUserLimit(0, c.Users)
	c.Errors = access.NewErrorLimit(c.LocalCounts)
	c.Spare = new(unixsock.SpareDescriptors)
	c.Ends = newEnds(dev.attr.NodeGUID)
	c.Ports = udp.NewPorts(c.WirePort, 2, c.Local && c.Wire)
	c.FreePorts = sync.OnceValues(hostport.EphemeralPorts)
	return &c
}

// newEnds returns a table of shared memory. Its limit of mappings is so high that no test
// reaches it.
func newEnds(guid uint64) *shm.Ends {
	return shm.NewEnds(testGeometry, shm.NewMappingLimit(shm.MaxMappings(), shm.CountMappings, shm.ByteLimits{}, new(counters.Set)), guid)
}

// RequireNothingLeft requires that a party that was closed has no binding, no open
// channel and no counted connection.
func (s *party) RequireNothingLeft(t *testing.T) {
	t.Helper()
	require.Zero(t, s.Dev.Channels)
	require.Empty(t, s.Dev.Bound)
	require.Empty(t, s.M.UserLimit.Counts())
}

// OpenChannel implements cm.Transport. It opens a channel and stores it in tc.
func (s *party) OpenChannel() (cm.TransportChannel, error) {
	tc, err := s.M.OpenChannel()
	s.TC, _ = tc.(*Channel)
	return tc, err
}

// RequireNoTimer requires that no timer of a channel is running.
func RequireNoTimer(t *testing.T, ch *Channel) {
	t.Helper()
	running, _ := ch.Probe().Timers()
	require.Zero(t, running)
}

// AwaitCount waits until a counter has at least the given value. If an event arrives
// before the counter has this value, the test fails.
func (s *party) AwaitCount(name string, value uint64) {
	s.T.Helper()
	for s.Counted()[name] < value {
		cmside.AwaitReadable(s.T, s.Channel.FD())
		s.Quiet()
	}
}

// connected makes a listener at the server and connects a client to it. Both sides have
// queue pairs.
func connected(t *testing.T, client, server *party) (active, passive *cm.ID) {
	t.Helper()
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	return cmside.Connect(client.Side, server.Side, l)
}

// peers maps the roles of peer processes to the functions that they run.
var peers = map[string]peerproc.Role{
	"low-port":           peerLowPort,
	"closed-port-ipv6":   peerClosedPortIPv6,
	"no-descriptors":     peerNoDescriptors,
	"unchecked-source":   peerUncheckedSource,
	"unknown-host":       peerUnknownHost,
	"refused":            peerRefused,
	"squat-accepting":    squatAccepting,
	"bind-any-clashes":   peerBindAnyClashes,
	"squat-full":         squatFull,
	"squat-bound":        squatBound,
	"server-credentials": peerAcceptAllowed,
	"unmapped-server":    peerUnmappedServer,
}

// TestPeer runs the function of a peer process. In the test process it does nothing.
func TestPeer(t *testing.T) { peerproc.Main(t, peers) }
