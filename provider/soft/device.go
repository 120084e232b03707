//go:build linux

package soft

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/madcm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixcm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// These limits bound the memory that one caller can allocate. They are arbitrary if no
// comment gives a reason.
const (
	maxQP        = 1 << 20
	maxWR        = 1 << 15
	maxSRQWR     = 1 << 20
	maxSGE       = 16
	maxInline    = 1 << 10
	maxCQ        = 1 << 16
	maxCQE       = 1 << 22
	maxPD        = 1 << 16
	maxAH        = 1 << 20
	maxSRQ       = 1 << 16
	maxRdAtomic  = 128
	maxMsgSize   = 1 << 31 // messages have 0 to 2^31 bytes (IBTA vol. 1, 9.7.2)
	maxMRSize    = 1 << 46
	defaultDelay = 15 // code of the local CA ACK delay: 4.096 µs << 15 = 134 ms
)

// device implements verbs.Device. Any goroutine may call its methods. The mutex mu
// guards the fields after it.
type device struct {
	cfg       Config
	attr      verbs.DeviceAttr
	users     access.Users
	connLimit *access.UserLimit
	spare     unixsock.SpareDescriptors
	start     time.Time // time at which the device's clock was 0
	mrs       mrTable
	async     *asyncQueue
	udp       *udp.Ports
	gids      gidTable
	cm        *connmgr.Manager // connection management of the device
	mads      *madcm.Mux       // its wire path; nil on a device without wire path
	maps      *shm.MappingLimit
	regions   *shm.RegionLimit
	ends      *shm.Ends
	bindings  *bindings
	// access refuses connections of a source after too many access errors, because the
	// source may be guessing remote keys.
	access *access.ErrorLimit

	mu     sync.Mutex
	closed bool
	shards map[shardKey]*shard
	qps    map[uint32]*qp // open queue pairs by number
	// number of open objects of each kind, for ErrBusy and for the limits
	objects map[objectKind]int

	local     counters.Set    // counters of connection management on the local path
	allCounts []*counters.Set // all counters of the device, also those of closed shards
}

type shardKey struct {
	vector   int
	progress verbs.Progress
}

// slot returns the number of the shard: twice its completion vector in automatic
// progress, and one more in manual progress.
func (k shardKey) slot() uint32 { return 2*uint32(k.vector) + uint32(k.progress) }

// objectKind is a kind of objects that have to be closed before the device.
type objectKind uint8

const (
	objPD objectKind = iota
	objCQ
	objChannel
	objEventChannel
)

func newDevice(cfg *Config) (*device, error) {
	var guid [8]byte
	if _, err := rand.Read(guid[:]); err != nil {
		return nil, err
	}
	async, err := newAsyncQueue()
	if err != nil {
		return nil, err
	}
	ports, wireCM := udp.NewPorts(cfg.WirePort, cfg.slots(), cfg.Path == PathAuto), new(counters.Set)
	users := access.NewUsers(cfg.AllowedUsers)
	attr := deviceAttr(cfg, binary.BigEndian.Uint64(guid[:]))
	d := &device{
		cfg:       *cfg,
		attr:      attr,
		users:     users,
		connLimit: access.NewUserLimit(cfg.MaxConnsPerUser, users),
		udp:       ports,
		gids:      gidTable{inUse: ports.Addrs},
		start:     time.Now(),
		async:     async,
		shards:    make(map[shardKey]*shard),
		qps:       make(map[uint32]*qp),
		objects:   make(map[objectKind]int),
	}
	d.maps = shm.NewMappingLimit(shm.MaxMappings(), shm.CountMappings, cfg.byteLimits(), &d.local)
	d.regions = shm.NewRegionLimit(resource.MaxDescriptors() / regionDescriptors)
	d.ends = shm.NewEnds(cfg.geometry(), d.maps, attr.NodeGUID)
	d.bindings = newBindings(d.ends, cfg.slots())
	d.allCounts = []*counters.Set{wireCM, &d.local}
	d.access = access.NewErrorLimit(&d.local)
	d.cm = d.newManager(wireCM)
	return d, nil
}

// newManager makes the connection management of the device. The parameter wireCM has the
// counters that connection management uses on the wire path.
func (d *device) newManager(wireCM *counters.Set) *connmgr.Manager {
	cfg := &connmgr.Config{
		Device: d, Engine: qpEngine{d}, Start: d.start, ListenOnAll: d.cfg.ListenOnAll,
		FreePorts: sync.OnceValues(hostport.EphemeralPorts),
	}
	if d.cfg.Path != PathWire {
		cfg.Local = unixcm.New(&unixcm.Config{
			GUID: d.attr.NodeGUID, Shards: d.cfg.slots(), AlsoWire: d.cfg.Path != PathLocal,
			Users: d.users, UserLimit: d.connLimit, Errors: d.access, Spare: &d.spare, Ends: d.ends, Counts: &d.local,
		})
	}
	if d.cfg.Path != PathLocal {
		d.mads = madcm.New(&madcm.Config{
			Attr: d.attr, AlsoLocal: d.cfg.Path != PathWire,
			MaxHalfOpen: d.cfg.MaxHalfOpen, MaxHalfOpenPerAddress: d.cfg.MaxHalfOpenPerAddress,
			MaxConnsPerAddress: d.cfg.MaxConnsPerAddress,
			Port:               d.cfg.WirePort, Ports: d.udp, Errors: d.access, Counts: wireCM, LocalCounts: &d.local,
		})
		cfg.Wire = d.mads
	}
	return connmgr.New(cfg)
}

func deviceAttr(cfg *Config, guid uint64) verbs.DeviceAttr {
	return verbs.DeviceAttr{
		// The GUID is new for each opened device. So a peer can distinguish two devices that
		// use the same communication ID one after the other.
		NodeGUID: guid,
		Vendor:   "rdmaloop",
		Firmware: "soft",

		NumPorts:        1,
		NumCompVectors:  cfg.Vectors,
		MaxQP:           maxQP,
		MaxQPWR:         maxWR,
		MaxSGE:          maxSGE,
		MaxInline:       maxInline,
		MaxCQ:           maxCQ,
		MaxCQE:          maxCQE,
		MaxMR:           maxMR,
		MaxMRSize:       maxMRSize,
		MaxMW:           maxMW,
		MaxPD:           maxPD,
		MaxAH:           maxAH,
		MaxSRQ:          maxSRQ,
		MaxSRQWR:        maxSRQWR,
		MaxSRQSGE:       maxSGE,
		MaxQPRdAtom:     maxRdAtomic,
		MaxQPInitRdAtom: maxRdAtomic,
		LocalCAAckDelay: defaultDelay,
	}
}

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
		ProgressManual:   true,
	}
}

// Port implements verbs.Device. Port 1 is the only port. Its GIDs are addresses of this
// host.
func (d *device) Port(num uint8) (verbs.PortAttr, error) {
	if err := checkPort(num); err != nil {
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
		MaxMsgSize: maxMsgSize,
		GIDs:       gids,
	}, nil
}

func checkPort(num uint8) error {
	if num != connmgr.PortNumber {
		return &verbs.ParamError{Field: "port", Value: int64(num), Limit: 1, Reason: "the device has one port, with number 1"}
	}
	return nil
}

// AsyncFD implements verbs.Device.
func (d *device) AsyncFD() int { return d.async.event.FD() }

// NextAsync implements verbs.Device.
func (d *device) NextAsync(ev *verbs.AsyncEvent) (bool, error) { return d.async.next(ev) }

// now returns the time since the device was opened.
func (d *device) now() time.Duration { return time.Since(d.start) }

// add counts a new object of a kind, up to the limit. The error for too many objects
// contains the name, such as "completion queues".
func (d *device) add(kind objectKind, name string, limit int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	if d.objects[kind] >= limit {
		return &verbs.ParamError{Field: name, Value: int64(d.objects[kind]) + 1, Limit: int64(limit)}
	}
	d.objects[kind]++
	return nil
}

func (d *device) remove(kind objectKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.objects[kind]--
}

// claimShard makes a completion channel the only owner of a shard in manual progress.
func (d *device) claimShard(s *shard) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.owned {
		return verbs.ErrBusy
	}
	s.owned = true
	return nil
}

func (d *device) releaseShard(s *shard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.owned = false
}

// shard returns the shard of a completion vector and progress mode, and makes it if
// needed.
func (d *device) shard(vector int, progress verbs.Progress) (*shard, error) {
	if vector < 0 || vector >= d.cfg.Vectors {
		return nil, &verbs.ParamError{Field: "vector", Value: int64(vector), Limit: int64(d.cfg.Vectors - 1)}
	}
	if progress > verbs.ProgressManual {
		return nil, &verbs.ParamError{Field: "progress", Value: int64(progress), Limit: int64(verbs.ProgressManual)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	key := shardKey{vector, progress}
	if s := d.shards[key]; s != nil {
		return s, nil
	}
	s, err := newShard(d, key)
	if err != nil {
		return nil, err
	}
	d.shards[key] = s
	d.allCounts = append(d.allCounts, s.counts)
	return s, nil
}

// register gives a queue pair a random number that belongs to its shard; see
// Config.slots. The numbers 0, 1 and 0xffffff are reserved, and the function reserve may
// refuse others.
func (d *device) register(q *qp, reserve func(num uint32) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.qps) >= maxQP {
		return &verbs.ParamError{Field: "queue pairs", Value: int64(len(d.qps)) + 1, Limit: maxQP}
	}
	err := errNoQPNumber
	// Most random numbers are free. The limit of 1000 attempts is arbitrary.
	for range 1000 {
		num := d.cfg.numberFor(q.shard.slot, random.Uint32()&verbs.MaxQPNum)
		if num < 2 || num >= wire.MulticastQPN || d.qps[num] != nil {
			continue
		}
		if refused := reserve(num); refused != nil {
			err = refused
			continue
		}
		q.num = num
		d.qps[num] = q
		return nil
	}
	return err
}

var errNoQPNumber = fmt.Errorf("%w: the queue pair numbers of the completion vector are in use", verbs.ErrNoResources)

func (d *device) unregister(q *qp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.qps, q.num)
}

// waitForShards waits until each shard in automatic progress has finished its present
// call. That call may still use a region that was closed.
func (d *device) waitForShards() {
	d.mu.Lock()
	shards := slices.Collect(maps.Values(d.shards))
	d.mu.Unlock()
	for _, s := range shards {
		s.mu.Lock()
		//lint:ignore SA2001 taking the lock waits for the end of the running call
		s.mu.Unlock()
	}
}

func (d *device) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// openObjects returns the numbers of open objects, such as "1 CQ, 2 PD". The caller
// holds mu.
func (d *device) openObjects() string {
	var list []string
	for kind, name := range [...]string{objPD: "PD", objCQ: "CQ", objChannel: "completion channel", objEventChannel: "event channel"} {
		if n := d.objects[objectKind(kind)]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(list, ", ")
}

// close closes the device. It returns verbs.ErrBusy while objects are open.
func (d *device) close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	if open := d.openObjects(); open != "" {
		d.mu.Unlock()
		return fmt.Errorf("%w: open objects of the device: %s", verbs.ErrBusy, open)
	}
	d.closed = true
	shards := d.shards
	d.shards = nil
	d.mu.Unlock()

	d.bindings.close()
	for _, s := range shards {
		s.close()
	}
	d.async.close()
	return nil
}

// clampUint32 converts n to a uint32. A larger n becomes the largest uint32.
func clampUint32(n int) uint32 { return uint32(min(uint64(n), math.MaxUint32)) }
