//go:build linux

package qptest

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Device is an engine whose paths the test makes. It implements qp.Host.
type Device struct {
	*qp.Engine
	Paths
	ports *udp.Ports
	sets  []*counters.Set // counters of the shards
	own   counters.Set    // counters that belong to no shard
}

// A Paths has what a test knows of paths. A function that is nil is not called by the
// test.
type Paths struct {
	OnShard   func(s *qp.Shard)                           // called for each new shard; may be nil
	OnConnect func(q *qp.QP, attr *verbs.QPAttr) error    // see host.connect
	OnUD      func(q *qp.QP) qp.DatagramPath              // see host.NewDatagramPath
	OnResolve func(*verbs.AHAttr) (qp.Destination, error) // see host.resolve
	clock     func() time.Duration                        // time of the engine; nil: the real time
	Port      uint16                                      // UDP port; 0: that of RoCEv2
	Regions   *shm.RegionLimit                            // see Config
	Extra     any                                         // what else the test wants to find in the device
}

// NewDevice returns a device with completion vectors, which the end of the test closes.
// The function closing, which may be nil, is called when the shards have stopped.
func NewDevice(t testing.TB, vectors int, paths Paths, closing func()) *Device {
	d := &Device{Paths: paths, ports: udp.NewPorts(cmp.Or(paths.Port, wire.UDPPort), qp.ShardsOf(vectors), false)}
	start := time.Now()
	if d.clock == nil {
		d.clock = func() time.Duration { return time.Since(start) }
	}
	var err error
	d.Engine, err = qp.New(qp.Config{
		Host: d, Vectors: vectors, Clock: d.clock, Regions: paths.Regions,
		Access: access.NewErrorLimit(&d.own),
	})
	require.NoError(t, err)
	if closing == nil {
		closing = func() {}
	}
	t.Cleanup(func() { require.NoError(t, d.Engine.Close(closing)) })
	return d
}

// Counted returns the sums of the counters that are not 0, by name, without gauges.
func (d *Device) Counted() map[string]uint64 {
	sums := map[string]uint64{}
	list, _ := d.Counters(1)
	for _, c := range list {
		if c.Value > 0 && !c.Gauge {
			sums[c.Name] = c.Value
		}
	}
	return sums
}

// Name implements verbs.Device.
func (d *Device) Name() string { return "qptest" }

// Caps implements verbs.Device.
func (d *Device) Caps() verbs.Caps { return verbs.Caps{} }

// Attr implements verbs.Device.
func (d *Device) Attr() verbs.DeviceAttr { return qp.Limits() }

// Port implements verbs.Device. It returns no GIDs.
func (d *Device) Port(uint8) (verbs.PortAttr, error) { return verbs.PortAttr{}, nil }

// Counters implements verbs.Device.
func (d *Device) Counters(uint8) ([]verbs.Counter, error) {
	return counters.Sum(append([]*counters.Set{&d.own, &d.Memory}, d.sets...)), nil
}

// AddShard implements qp.Host.
func (d *Device) AddShard(s *qp.Shard) {
	d.sets = append(d.sets, s.Counts)
	if d.OnShard != nil {
		d.OnShard(s)
	}
}

// NewSockets implements qp.Host.
func (d *Device) NewSockets(s *qp.Shard) qp.Sockets { return s.UDPSockets(d.ports) }

// Connect implements qp.Host.
func (d *Device) Connect(q *qp.QP, attr *verbs.QPAttr) error { return d.OnConnect(q, attr) }

// NewDatagramPath implements qp.Host.
func (d *Device) NewDatagramPath(q *qp.QP) qp.DatagramPath { return d.OnUD(q) }

// Resolve implements qp.Host.
func (d *Device) Resolve(attr *verbs.AHAttr) (qp.Destination, error) { return d.OnResolve(attr) }

// ReceiveMAD implements qp.Host. Nobody takes the packet.
func (d *Device) ReceiveMAD(wire.Packet, *udp.Header) bool { return false }
