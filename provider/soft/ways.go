//go:build linux

package soft

import (
	"errors"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/madcm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/rcpath"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shmpath"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/simnet"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udpath"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file has what the engine asks its device: the ways to a peer.

// ways has what the connections of one shard share, for each way to a peer.
type ways struct {
	wire      *rcpath.Conns
	local     *shmpath.Peers
	datagrams *udpath.Sockets
}

// AddShard implements qp.Host.
func (d *device) AddShard(s *qp.Shard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ways[s.Slot] = &ways{
		wire:  rcpath.NewConns(s, d.bindings.dataHeard),
		local: shmpath.NewPeers(s, d.shared),
		datagrams: udpath.NewSockets(s, &udpath.Config{
			Host: d.host, HasLocal: d.cfg.Path != PathWire, HasWire: d.cfg.Path != PathLocal,
			Users: d.users, Limit: d.connLimit, Spare: &d.spare, Addrs: d.gids.all,
		}),
	}
	s.Counts.OnLimit = d.logLimit
	d.allCounts = append(d.allCounts, s.Counts)
}

// NewSockets implements qp.Host.
func (d *device) NewSockets(s *qp.Shard) qp.Sockets { return d.wire.sockets(s) }

// wirePorts are the UDP ports of a device.
type wirePorts interface {
	Addrs() []netip.Addr // addresses with open ports
	Overruns() uint64    // number of datagrams for which the receive buffers had no room
	sockets(s *qp.Shard) qp.Sockets
	network() madcm.Network
}

// newWirePorts returns the ports of a device: those of the system, or those of the
// simulated host h.
//
// The tap records the packets of connection management. It may be nil.
func newWirePorts(h simhost.Host, host *hostport.Host, cfg *Config, shards uint32, counts *counters.Set, tap *capture.Tap) wirePorts {
	if h != nil {
		return &simPorts{simnet.NewPorts(h, cfg.WirePort, shards, counts)}
	}
	ports := udp.NewPorts(cfg.WirePort, shards, cfg.Path == PathAuto)
	ports.Tap = tap
	return &udpPorts{host, ports, cfg.WirePort, counts}
}

type udpPorts struct {
	host *hostport.Host
	*udp.Ports
	number uint16
	counts *counters.Set
}

func (p *udpPorts) sockets(s *qp.Shard) qp.Sockets { return s.UDPSockets(p.Ports) }
func (p *udpPorts) network() madcm.Network         { return madcm.UDP(p.host, p.Ports, p.number, p.counts) }

type simPorts struct{ *simnet.Ports }

func (p *simPorts) sockets(s *qp.Shard) qp.Sockets { return p.NewConn(s) }
func (p *simPorts) network() madcm.Network         { return p.Ports }

func (d *device) waysOf(s *qp.Shard) *ways {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ways[s.Slot]
}

// sharesRegionsWith reports whether this process and one of the given user may map
// regions of each other; see Config.PrivateRegions.
func (d *device) sharesRegionsWith(uid uint32) bool {
	return !d.cfg.PrivateRegions && d.users.IsOwn(uid)
}

// ReceiveMAD implements qp.Host.
func (d *device) ReceiveMAD(p wire.Packet, from *udp.Header) (taken bool) {
	return d.mads != nil && d.mads.Receive(p, from)
}

// NewDatagramPath implements qp.Host.
func (d *device) NewDatagramPath(q *qp.QP) qp.DatagramPath {
	return udpath.New(d.waysOf(q.Shard).datagrams, q)
}

// Connect implements qp.Host.
func (d *device) Connect(q *qp.QP, attr *verbs.QPAttr) error {
	overWire, err := d.overWire(q.Num(), &attr.AH)
	switch {
	case err != nil:
		return err
	case overWire:
		return d.connectWire(q, attr)
	}
	end, err := d.bindings.take(q.Num(), attr.DestQPN)
	if err != nil {
		return err
	}
	c, err := shmpath.New(d.waysOf(q.Shard).local, q, end, attr.DestQPN)
	if err != nil {
		end.Release()
		return err
	}
	if q.Shard.Tap != nil {
		c.Record(d.record(q, attr))
	}
	q.UseLocal(c)
	return nil
}

func (d *device) connectWire(q *qp.QP, attr *verbs.QPAttr) error {
	to, err := d.routeOf(&attr.AH)
	if err != nil {
		return err
	}
	to.WantTime = q.RecvTime
	flow := d.bindings.flow(q.Num())
	c, err := rcpath.New(d.waysOf(q.Shard).wire, q, to, rcpath.CreditFlow(flow), attr)
	if err != nil {
		return err
	}
	q.UseWire(c)
	return nil
}

// overWire reports whether an RC queue pair uses the wire path. Config.Path or the
// queue pair's binding may choose the path. If neither does, the queue pair uses the wire
// path if the peer's address does not belong to this host.
func (d *device) overWire(qpn uint32, peer *verbs.AHAttr) (bool, error) {
	local, wire := d.bindings.path(qpn)
	switch {
	case d.cfg.Path == PathLocal || local:
		return false, nil
	case d.cfg.Path == PathWire || wire:
		return true, nil
	}
	own, err := d.host.OnThisHost(peer.DestGID.Addr())
	return !own && err == nil, err
}

// Resolve implements qp.Host. Datagrams on the local path have no route, but only a source
// address.
func (d *device) Resolve(attr *verbs.AHAttr) (to qp.Destination, err error) {
	if err := d.checkAH(attr); err != nil {
		return to, err
	}
	addr := attr.DestGID.Addr()
	if d.cfg.Path != PathWire {
		own, err := d.host.OnThisHost(addr)
		switch {
		case err != nil:
			return to, err
		case own:
			to.Source, err = d.sourceOf(attr)
			return to, err
		}
	}
	if d.cfg.Path == PathLocal {
		return to, &verbs.FeatureError{Feature: "datagrams to " + addr.String(), Reason: errNotThisHost}
	}
	to.To, err = d.routeOf(attr)
	return to, err
}

// routeOf returns the route of an address vector. The route starts at the host address
// with the index attr.SourceIndex.
func (d *device) routeOf(attr *verbs.AHAttr) (udp.Route, error) {
	local, err := d.gids.at(attr.SourceIndex)
	if err != nil {
		return udp.Route{}, err
	}
	return udp.Route{
		Local: local, Remote: attr.DestGID.Addr(),
		TrafficClass: attr.TrafficClass, HopLimit: attr.HopLimit,
	}, nil
}

// sourceOf returns the source address of datagrams on the local path. If SourceIndex does
// not exist, sourceOf returns the destination address, which is on this host too.
func (d *device) sourceOf(attr *verbs.AHAttr) (verbs.GID, error) {
	addr, err := d.gids.at(attr.SourceIndex)
	var none *verbs.ParamError
	if errors.As(err, &none) {
		return attr.DestGID, nil
	}
	return verbs.GIDFromAddr(addr), err
}

func (d *device) checkAH(attr *verbs.AHAttr) error {
	if attr.SourceIndex == 0 && attr.Port == 1 && attr.FlowLabel == 0 {
		// Port 1, GID index 0 and flow label 0 are the usual values, and are valid. d.Port is
		// not called for them. It is slow, because it reads the addresses of the host from the
		// kernel.
		return nil
	}
	port, err := d.Port(attr.Port)
	if err != nil {
		return err
	}
	if err := operr.CheckRange("source GID index", attr.SourceIndex, 0, len(port.GIDs)-1); err != nil {
		return err
	}
	if attr.FlowLabel >= 1<<20 {
		return &verbs.ParamError{Field: "flow label", Value: int64(attr.FlowLabel), Limit: 1<<20 - 1}
	}
	return nil
}

var errNotThisHost = errors.New("not an address of this host, and the device has only the local path")
