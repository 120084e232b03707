//go:build linux

package soft

import (
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/limitlog"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/madcm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shmpath"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixcm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// defaultDelay is the code of the local CA ACK delay: 4.096 µs << 15 = 134 ms. Arbitrary.
const defaultDelay = 15

// device implements verbs.Device. Any goroutine may call its methods. The mutex mu
// guards the fields after it.
type device struct {
	*qp.Engine
	sim       simhost.Host // simulated host; nil on this host
	host      *hostport.Host
	cfg       Config
	log       *limitlog.Logger
	attr      verbs.DeviceAttr
	users     access.Users
	connLimit *access.UserLimit
	spare     unixsock.SpareDescriptors
	start     time.Time // time at which the device's clock was 0
	wire      wirePorts
	gids      gidTable
	cm        *connmgr.Manager // connection management of the device
	mads      *madcm.Mux       // its wire path; nil on a device without wire path
	maps      *shm.MappingLimit
	ends      *shm.Ends
	bindings  *bindings
	shared    *shmpath.Config  // what all local paths of the device share
	capture   *capture.Capture // nil without a capture

	mu sync.Mutex
	// what the connections of each shard share, by the number of the shard
	ways []*ways

	local     counters.Set    // counters of connection management and mappings of the local path
	allCounts []*counters.Set // all counters of the device, also those of closed shards
}

// newDevice makes a device. If it succeeds, the device owns the capture, which may be nil.
func newDevice(h simhost.Host, cfg *Config, log *limitlog.Logger, to *capture.Capture) (*device, error) {
	host, from, vectors, wireCM := hostport.New(h), random.From(h), vectorsOn(h), new(counters.Set)
	shards := qp.ShardsOf(vectors)
	cmTap := to.NewSharedTap()
	ports := newWirePorts(h, host, cfg, shards, wireCM, cmTap)
	users := access.NewUsers(cfg.AllowedUsers)
	attr := deviceAttr(vectors, from.Uint64())
	d := &device{
		sim:       h,
		log:       log,
		capture:   to,
		host:      host,
		cfg:       *cfg,
		attr:      attr,
		users:     users,
		connLimit: access.NewUserLimit(cfg.MaxConnsPerUser, users),
		wire:      ports,
		gids:      gidTable{addrs: host.Addrs, inUse: ports.Addrs},
		start:     time.Now(),
		ways:      make([]*ways, shards),
	}
	d.local.OnLimit = d.logLimit
	d.maps = shm.NewMappingLimit(shm.MaxMappings(), countMappings(h), cfg.byteLimits(), &d.local)
	d.maps.Sim = h
	d.ends = shm.NewEnds(cfg.geometry(), d.maps, attr.NodeGUID, h)
	d.bindings = newBindings(d.ends, shards)
	d.shared = &shmpath.Config{Ends: d.ends, Maps: d.maps, SharesWith: d.sharesRegionsWith, Withdraw: d.bindings.drop}
	d.allCounts = []*counters.Set{wireCM, &d.local}
	var regions *shm.RegionLimit
	if !cfg.PrivateRegions && cfg.Path != PathWire {
		regions = shm.NewRegionLimit(resource.MaxDescriptors() / qp.RegionDescriptors)
		regions.Sim = h
	}
	var err error
	d.Engine, err = qp.New(qp.Config{
		Host: d, Sim: h, Vectors: vectors, Clock: d.now, Regions: regions,
		Access: access.NewErrorLimit(&d.local), Capture: to,
	})
	if err != nil {
		return nil, err
	}
	d.allCounts = append(d.allCounts, &d.Memory)
	d.cm = d.newManager(wireCM, cmTap)
	return d, nil
}

// countMappings returns a function that counts the mappings of the process. A simulated
// process has none but its own.
func countMappings(h simhost.Host) func() (int, bool) {
	if h != nil {
		return func() (int, bool) { return 0, true }
	}
	return shm.CountMappings
}

// newManager makes the connection management of the device. The parameter wireCM has the
// counters that connection management uses on the wire path. The tap records its messages on
// the local path. It may be nil.
func (d *device) newManager(wireCM *counters.Set, tap *capture.Tap) *connmgr.Manager {
	cfg := &connmgr.Config{
		Sim: d.sim, Host: d.host, Device: d, Engine: cmEngine{d}, Start: d.start, ListenOnAll: d.cfg.ListenOnAll,
		FreePorts: sync.OnceValues(d.host.EphemeralPorts),
	}
	if d.cfg.Path != PathWire {
		local := &unixcm.Config{
			Host: d.host, GUID: d.attr.NodeGUID, Shards: d.bindings.shards, AlsoWire: d.cfg.Path != PathLocal,
			Users: d.users, UserLimit: d.connLimit, Errors: d.Access, Spare: &d.spare, Ends: d.ends, Counts: &d.local,
		}
		if tap != nil {
			local.Observe = (&cmRecorder{tap, d.attr}).observe
		}
		cfg.Local = unixcm.New(local)
	}
	if d.cfg.Path != PathLocal {
		d.mads = madcm.New(&madcm.Config{
			Host: d.host, Attr: d.attr, AlsoLocal: d.cfg.Path != PathWire,
			MaxHalfOpen: d.cfg.MaxHalfOpen, MaxHalfOpenPerAddress: d.cfg.MaxHalfOpenPerAddress,
			MaxConnsPerAddress: d.cfg.MaxConnsPerAddress,
			Port:               d.cfg.WirePort, Network: d.wire.network(), Random: random.From(d.sim), Errors: d.Access, Counts: wireCM, LocalCounts: &d.local,
		})
		cfg.Wire = d.mads
	}
	return connmgr.New(cfg)
}

func deviceAttr(vectors int, guid uint64) verbs.DeviceAttr {
	attr := qp.Limits()
	// The GUID is new for each opened device. So a peer can distinguish two devices that
	// use the same communication ID one after the other.
	attr.NodeGUID = guid
	attr.Vendor, attr.Firmware = "rdmaloop", "soft"
	attr.NumPorts, attr.NumCompVectors = 1, vectors
	attr.LocalCAAckDelay = defaultDelay
	return attr
}

// SimulatedHost returns the simulated host of the device, or nil; see simhost.OfDevice.
func (d *device) SimulatedHost() simhost.Host { return d.sim }

// Name implements verbs.Device.
func (d *device) Name() string { return "soft0" }

// Attr implements verbs.Device.
func (d *device) Attr() verbs.DeviceAttr { return d.attr }

// Caps implements verbs.Device.
func (d *device) Caps() verbs.Caps {
	return verbs.Caps{
		Atomics:          true,
		WriteImm:         true,
		SRQ:              true,
		UD:               true,
		ResizeCQ:         true,
		MemoryWindows:    true,
		LoopbackAddrs:    true,
		ExactPrivateData: d.cfg.Path == PathLocal,
		DisconnectData:   true,
		RecvTime:         d.cfg.Path != PathLocal,
		RecvModes:        true,
		ProgressManual:   true,
	}
}

// Port implements verbs.Device. Port 1 is the only port. Its GIDs are addresses of this
// host.
func (d *device) Port(num uint8) (verbs.PortAttr, error) {
	if err := qp.CheckPort(num); err != nil {
		return verbs.PortAttr{}, operr.Wrap("query port", err)
	}
	gids, err := d.gids.all()
	if err != nil {
		return verbs.PortAttr{}, operr.Wrap("query port", err)
	}
	return verbs.PortAttr{
		State:      verbs.PortActive,
		MaxMTU:     connmgr.LargestMTU,
		ActiveMTU:  connmgr.LargestMTU,
		MaxMsgSize: qp.MaxMsgSize,
		GIDs:       gids,
	}, nil
}

// now returns the time since the device was opened.
func (d *device) now() time.Duration { return time.Since(d.start) }

// close closes the device. It returns verbs.ErrBusy while objects are open.
func (d *device) close() error {
	err := d.Engine.Close(func() {
		d.bindings.close()
		for _, w := range d.ways {
			if w != nil {
				w.local.Close()
			}
		}
	})
	if err == nil {
		d.capture.Close()
	}
	return err
}

// Counters implements verbs.Device. It also works after Close.
func (d *device) Counters(port uint8) ([]verbs.Counter, error) {
	if err := qp.CheckPort(port); err != nil {
		return nil, operr.Wrap("read counters", err)
	}
	d.mu.Lock()
	// allCounts is only appended to, so its elements can be read without mu.
	all := d.allCounts
	d.mu.Unlock()
	list := counters.Sum(all)
	list[counters.RcvdOverrunErr].Value = d.wire.Overruns()
	list[counters.CaptureDropped].Value = d.capture.Dropped()
	return list, nil
}

// limitTexts has what is logged when something is refused because of a limit, by the counter
// that counts it.
var limitTexts = map[counters.ID]string{
	counters.NoDescriptorsErr: "soft: a local connection was refused, because no file descriptor is free (ulimit -n)",
	counters.NoMappingsErr:    "soft: shared memory was not mapped, because the system has no memory, or the process too many mappings (vm.max_map_count)",
	counters.MappedBytesErr:   "soft: shared memory was not mapped (soft.Config.MaxMappedPerProcess, MaxMapped)",
	counters.UserLimitErr:     "soft: a local connection was refused, because its user has too many (soft.Config.MaxConnsPerUser)",
	counters.RcvdOverrunErr:   "soft: packets were lost, because the receive buffer of a socket was full (net.core.rmem_max)",
}

// logLimit logs that something was refused because of a limit.
func (d *device) logLimit(id counters.ID) { d.log.Warn(limitTexts[id], "counter", id.String()) }
