//go:build linux

package soft

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A datagramDevice is a device for UD queue pairs.
type datagramDevice struct {
	*testDevice
	cfg   *udConfig
	paths map[*qp]*udPath
}

// newDatagramDevice makes a device for UD queue pairs. Fields of cfg that are nil get
// values that limit nothing.
func newDatagramDevice(t testing.TB, vectors int, cfg *udConfig) *datagramDevice {
	if cfg.limit == nil {
		cfg.users = access.NewUsers(nil)
		cfg.limit = access.NewUserLimit(-1, cfg.users)
	}
	if cfg.spare == nil {
		cfg.spare = new(unixsock.SpareDescriptors)
	}
	if cfg.addrs == nil {
		cfg.addrs = func() ([]verbs.GID, error) { return nil, nil }
	}
	d := &datagramDevice{cfg: cfg, paths: make(map[*qp]*udPath)}
	sockets := make(map[*shard]*udSockets)
	d.testDevice = newTestDevice(t, vectors, testPaths{
		onShard: func(s *shard) { sockets[s] = newUDSockets(s, cfg) },
		onUD: func(q *qp) datagramPath {
			d.paths[q] = newUDPath(sockets[q.shard], q)
			return d.paths[q]
		},
		onResolve: func(attr *verbs.AHAttr) (destination, error) {
			to := attr.DestGID.Addr()
			if cfg.hasLocal && to.IsLoopback() {
				return destination{source: attr.DestGID}, nil
			}
			return destination{to: udp.Route{Local: netip.IPv6Unspecified(), Remote: to, TrafficClass: attr.TrafficClass, HopLimit: attr.HopLimit}}, nil
		},
	}, nil)
	return d
}

// newLocalDevice makes a device for UD queue pairs on the local path. The processes of the
// given users may send to it, and open up to maxConns connections each; see
// access.NewUserLimit.
func newLocalDevice(t testing.TB, maxConns int, allowed ...uint32) *datagramDevice {
	users := access.NewUsers(allowed)
	return newDatagramDevice(t, 1, &udConfig{hasLocal: true, users: users, limit: access.NewUserLimit(maxConns, users)})
}

// local returns the local path of an end's UD queue pair.
func (d *datagramDevice) local(e *end) *udLocal { return d.paths[e.qp].local }

// newDatagramSim makes a simulated network with room for two hosts.
func newDatagramSim(t testing.TB, d *datagramDevice) *sim {
	return newSimOf(t, d.testDevice, 1, netsim.Config{Delay: 10 * time.Microsecond})
}
