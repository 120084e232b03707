//go:build linux

package madcm

import (
	"sync"
	"testing"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

func TestMain(m *testing.M) { leak.Main(m) }

const safety = cmside.Safety

// defaultHalfOpen is the default of Config.MaxHalfOpen in tests.
const defaultHalfOpen = 512

// A party is one side of a connection. Its device has the wire path only.
type party struct {
	*cmtest.Party
	mux   *Mux
	ports *udp.Ports
}

// openParty makes a party. Zero fields of cfg get their defaults, except the field Port.
func openParty(t *testing.T, cfg *Config) *party {
	t.Helper()
	dev, local := cmtest.NewDevice(), new(counters.Set)
	c := *cfg
	c.Attr = dev.Attr()
	if c.Host == nil {
		c.Host = hostport.New(nil)
	}
	if c.MaxHalfOpen == 0 {
		c.MaxHalfOpen, c.MaxHalfOpenPerAddress = defaultHalfOpen, defaultHalfOpen/2
	}
	if c.MaxConnsPerAddress == 0 {
		c.MaxConnsPerAddress = 4096
	}
	ports := udp.NewPorts(c.Port, 2, false)
	c.Errors, c.Counts, c.LocalCounts = access.NewErrorLimit(local), new(counters.Set), local
	c.Network = UDP(c.Host, ports, c.Port, c.Counts)
	s := &party{mux: New(&c), ports: ports}
	m := connmgr.New(&connmgr.Config{
		Host: c.Host, Device: dev, Engine: dev, Start: time.Now(), Wire: s.mux, FreePorts: sync.OnceValues(c.Host.EphemeralPorts),
	})
	s.Party = &cmtest.Party{M: m, Dev: dev, Counts: []*counters.Set{local, c.Counts}}
	s.Open(t)
	return s
}

// peers maps the roles of peer processes to the functions that they run.
var peers = map[string]peerproc.Role{"closed-port-ipv6": peerClosedPortIPv6}

// TestPeer runs the function of a peer process. In the test process it does nothing.
func TestPeer(t *testing.T) { peerproc.Main(t, peers) }
