//go:build linux

package soft

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A testDevice is an engine whose paths the test makes. It implements host.
type testDevice struct {
	*engine
	testPaths
	sets []*counters.Set // counters of the shards
	own  counters.Set    // counters that belong to no shard
}

// A testPaths has what a test knows of paths. A function that is nil is not called by the
// test.
type testPaths struct {
	onShard   func(s *shard)                           // called for each new shard; may be nil
	onConnect func(q *qp, attr *verbs.QPAttr) error    // see host.connect
	onUD      func(q *qp) datagramPath                 // see host.newDatagramPath
	onResolve func(*verbs.AHAttr) (destination, error) // see host.resolve
	clock     func() time.Duration                     // time of the engine; nil: the real time
	port      uint16                                   // UDP port; 0: that of RoCEv2
	regions   *shm.RegionLimit                         // see Config
	extra     any                                      // what else the test wants to find in the device
}

// newTestDevice returns a device with completion vectors, which the end of the test closes.
// The function closing, which may be nil, is called when the shards have stopped.
func newTestDevice(t testing.TB, vectors int, paths testPaths, closing func()) *testDevice {
	d := &testDevice{testPaths: paths}
	start := time.Now()
	if d.clock == nil {
		d.clock = func() time.Duration { return time.Since(start) }
	}
	var err error
	d.engine, err = newEngine(engineConfig{
		host: d, vectors: vectors, clock: d.clock, regions: paths.regions,
		ports: udp.NewPorts(cmp.Or(paths.port, wire.UDPPort), shardsOf(vectors), false), access: access.NewErrorLimit(&d.own),
	})
	require.NoError(t, err)
	if closing == nil {
		closing = func() {}
	}
	t.Cleanup(func() { require.NoError(t, d.engine.close(closing)) })
	return d
}

// counted returns the sums of the counters that are not 0, by name.
func (d *testDevice) counted() map[string]uint64 {
	sums := map[string]uint64{}
	for _, c := range counters.Sum(append([]*counters.Set{&d.own}, d.sets...)) {
		if c.Value > 0 {
			sums[c.Name] = c.Value
		}
	}
	return sums
}

func (d *testDevice) Name() string           { return "qptest" }
func (d *testDevice) Caps() verbs.Caps       { return verbs.Caps{} }
func (d *testDevice) Attr() verbs.DeviceAttr { return limits() }

func (d *testDevice) Port(uint8) (verbs.PortAttr, error) { return verbs.PortAttr{}, nil }

func (d *testDevice) addShard(s *shard) {
	d.sets = append(d.sets, s.counts)
	if d.onShard != nil {
		d.onShard(s)
	}
}

func (d *testDevice) connect(q *qp, attr *verbs.QPAttr) error { return d.onConnect(q, attr) }

func (d *testDevice) newDatagramPath(q *qp) datagramPath { return d.onUD(q) }

func (d *testDevice) resolve(attr *verbs.AHAttr) (destination, error) { return d.onResolve(attr) }

func (d *testDevice) receiveMAD(wire.Packet, *udp.Header) bool { return false }
