//go:build linux

package soft

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newPacketDevice makes a device whose RC queue pairs use the wire path. Its packets come
// from ownAddr.
func newPacketDevice(t testing.TB, vectors int) *testDevice {
	return newPacketDeviceAt(t, vectors, ownAddr, 0)
}

// newPacketDeviceAt makes a device at an address and a UDP port; see testPaths.
func newPacketDeviceAt(t testing.TB, vectors int, local netip.Addr, port uint16) *testDevice {
	conns := make(map[*shard]*rcConns)
	return newTestDevice(t, vectors, testPaths{
		port:    port,
		onShard: func(s *shard) { conns[s] = newRCConns(s, func(uint32) {}) },
		onConnect: func(q *qp, attr *verbs.QPAttr) error {
			to := udp.Route{Local: local, Remote: attr.AH.DestGID.Addr(), TrafficClass: attr.AH.TrafficClass, HopLimit: attr.AH.HopLimit}
			c, err := newRCConn(conns[q.shard], q, to, creditFlow{}, attr)
			if err == nil {
				q.useWire(c)
				made.Store(q, c)
				t.Cleanup(func() { made.Delete(q) })
			}
			return err
		},
	}, nil)
}

// made has the connection that a device of newPacketDevice has last made for a queue pair.
var made sync.Map

func rcConnOf(q *qp) *rcConn {
	c, _ := made.Load(q)
	return c.(*rcConn)
}

// newSim makes a simulated network with room for two hosts.
func newSim(t testing.TB, seed uint64, cfg netsim.Config) *sim { return newWireSim(t, 2, seed, cfg) }

// newWireSim makes a simulated network with room for the given number of hosts.
func newWireSim(t testing.TB, hosts int, seed uint64, cfg netsim.Config) *sim {
	return newSimOf(t, newPacketDevice(t, hosts), seed, cfg)
}
