//go:build linux

package unixcm

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
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/madcm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

func TestMain(m *testing.M) { leak.Main(m) }

const safety = cmside.Safety

// A party is one side of a connection.
type party struct {
	*cmtest.Party
	unix *Transport
}

// newParty returns a party whose device has both paths.
func newParty(t *testing.T) *party {
	t.Helper()
	return makeParty(true).open(t)
}

// newHostParty returns a party that also accepts peers of the user peerproc.User.
func newHostParty(t *testing.T) *party {
	t.Helper()
	return makeParty(true, peerproc.User).open(t)
}

// makeParty makes a party that accepts peers of the given users, without event channel.
// The parameter wirePath says whether its device has the wire path too.
func makeParty(wirePath bool, allowed ...uint32) *party {
	dev, local, wired := cmtest.NewDevice(), new(counters.Set), new(counters.Set)
	users := access.NewUsers(allowed)
	cfg := &Config{
		Host: hostport.New(nil), GUID: dev.Attr().NodeGUID, Shards: 1, AlsoWire: wirePath,
		Users: users, UserLimit: access.NewUserLimit(0, users), Errors: access.NewErrorLimit(local),
		Spare: new(unixsock.SpareDescriptors), Ends: newEnds(dev.Attr().NodeGUID), Counts: local,
	}
	s := &party{unix: New(cfg)}
	mcfg := &connmgr.Config{
		Host: cfg.Host, Device: dev, Engine: dev, Start: time.Now(), Local: s.unix, FreePorts: sync.OnceValues(cfg.Host.EphemeralPorts),
	}
	if wirePath {
		mcfg.Wire = madcm.New(&madcm.Config{
			Host: cfg.Host, Attr: dev.Attr(), AlsoLocal: true,
			MaxHalfOpen: 512, MaxHalfOpenPerAddress: 256, MaxConnsPerAddress: 4096,
			Port: wire.UDPPort, Network: madcm.UDP(cfg.Host, udp.NewPorts(wire.UDPPort, 2, true), wire.UDPPort, wired),
			Errors: cfg.Errors, Counts: wired, LocalCounts: local,
		})
	}
	s.Party = &cmtest.Party{M: connmgr.New(mcfg), Dev: dev, Counts: []*counters.Set{local, wired}}
	return s
}

func (s *party) open(t *testing.T) *party {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			require.Empty(t, s.unix.UserLimit.Counts())
		}
	})
	s.Open(t)
	return s
}

// RequireNothingLeft requires that a party that was closed has no binding, no open
// channel and no counted connection.
func (s *party) RequireNothingLeft(t *testing.T) {
	t.Helper()
	s.Party.RequireNothingLeft(t)
	require.Empty(t, s.unix.UserLimit.Counts())
}

// newEnds returns a table of shared memory. Its limit of mappings is so high that no test
// reaches it.
func newEnds(guid uint64) *shm.Ends {
	return shm.NewEnds(testGeometry, shm.NewMappingLimit(shm.MaxMappings(), shm.CountMappings, shm.ByteLimits{}, new(counters.Set)), guid, nil)
}

// testGeometry is the layout of the shared memory in tests.
var testGeometry = shm.Geometry{
	Slots: shm.MinRingSlots, Bytes: shm.MinRingBytes,
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
