//go:build linux

package rcpath

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newPacketDevice makes a device whose RC queue pairs use the wire path. Its packets come
// from ownAddr.
func newPacketDevice(t testing.TB, vectors int) *qptest.Device {
	return newPacketDeviceAt(t, vectors, ownAddr, 0)
}

// newPacketDeviceAt makes a device at an address and a UDP port; see qptest.Paths.
func newPacketDeviceAt(t testing.TB, vectors int, local netip.Addr, port uint16) *qptest.Device {
	conns := make(map[*qp.Shard]*Conns)
	return qptest.NewDevice(t, vectors, qptest.Paths{
		Port:    port,
		OnShard: func(s *qp.Shard) { conns[s] = NewConns(s, func(uint32) {}) },
		OnConnect: func(q *qp.QP, attr *verbs.QPAttr) error {
			to := udp.Route{Local: local, Remote: attr.AH.DestGID.Addr(), TrafficClass: attr.AH.TrafficClass, HopLimit: attr.AH.HopLimit}
			c, err := New(conns[q.Shard], q, to, CreditFlow{}, attr)
			if err == nil {
				q.UseWire(c)
				made.Store(q, c)
				t.Cleanup(func() { made.Delete(q) })
			}
			return err
		},
	}, nil)
}

// made has the connection that a device of newPacketDevice has last made for a queue pair.
var made sync.Map

func connOf(q *qp.QP) *Conn {
	c, _ := made.Load(q)
	return c.(*Conn)
}

// newSim makes a simulated network with room for two hosts.
func newSim(t testing.TB, seed uint64, cfg netsim.Config) *qptest.Sim {
	return newWireSim(t, 2, seed, cfg)
}

// newWireSim makes a simulated network with room for the given number of hosts.
func newWireSim(t testing.TB, hosts int, seed uint64, cfg netsim.Config) *qptest.Sim {
	return qptest.NewSim(t, newPacketDevice(t, hosts), seed, cfg)
}
