//go:build linux

package udpath

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A datagramDevice is a device for UD queue pairs.
type datagramDevice struct {
	*qptest.Device
	cfg   *Config
	paths map[*qp.QP]*Path
}

// newDatagramDevice makes a device for UD queue pairs. Fields of cfg that are nil get
// values that limit nothing.
func newDatagramDevice(t testing.TB, vectors int, cfg *Config) *datagramDevice {
	cfg.Host = hostport.New(nil)
	if cfg.Limit == nil {
		cfg.Users = access.NewUsers(nil)
		cfg.Limit = access.NewUserLimit(-1, cfg.Users)
	}
	if cfg.Spare == nil {
		cfg.Spare = new(unixsock.SpareDescriptors)
	}
	if cfg.Addrs == nil {
		cfg.Addrs = func() ([]verbs.GID, error) { return nil, nil }
	}
	d := &datagramDevice{cfg: cfg, paths: make(map[*qp.QP]*Path)}
	sockets := make(map[*qp.Shard]*Sockets)
	d.Device = qptest.NewDevice(t, vectors, qptest.Paths{
		OnShard: func(s *qp.Shard) { sockets[s] = NewSockets(s, cfg) },
		OnUD: func(q *qp.QP) qp.DatagramPath {
			d.paths[q] = New(sockets[q.Shard], q)
			return d.paths[q]
		},
		OnResolve: func(attr *verbs.AHAttr) (qp.Destination, error) {
			to := attr.DestGID.Addr()
			if cfg.HasLocal && to.IsLoopback() {
				return qp.Destination{Source: attr.DestGID}, nil
			}
			return qp.Destination{To: udp.Route{Local: netip.IPv6Unspecified(), Remote: to, TrafficClass: attr.TrafficClass, HopLimit: attr.HopLimit}}, nil
		},
	}, nil)
	return d
}

// newLocalDevice makes a device for UD queue pairs on the local path. The processes of the
// given users may send to it, and open up to maxConns connections each; see
// access.NewUserLimit.
func newLocalDevice(t testing.TB, maxConns int, allowed ...uint32) *datagramDevice {
	users := access.NewUsers(allowed)
	return newDatagramDevice(t, 1, &Config{HasLocal: true, Users: users, Limit: access.NewUserLimit(maxConns, users)})
}

// socketName returns the socket name of a UD queue pair.
func socketName(num uint32) string { return datagramName(hostport.New(nil), num) }

// local returns the local path of an end's UD queue pair.
func (d *datagramDevice) local(e *qptest.End) *localPath { return d.paths[e.QP].local }

// newDatagramSim makes a simulated network with room for two hosts.
func newDatagramSim(t testing.TB, d *datagramDevice) *qptest.Sim {
	return qptest.NewSim(t, d.Device, 1, netsim.Config{Delay: 10 * time.Microsecond})
}
