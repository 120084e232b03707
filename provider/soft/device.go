//go:build linux

package soft

import (
	"crypto/rand"
	"encoding/binary"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Limits of the device. They bound what one caller can make it allocate; the
// fields of the wire allow more.
const (
	maxQP        = 1 << 20
	maxWR        = 1 << 15
	maxSGE       = 16
	maxInline    = 1 << 10
	maxCQ        = 1 << 16
	maxCQE       = 1 << 22
	maxPD        = 1 << 16
	maxAH        = 1 << 20
	maxSRQ       = 1 << 16
	maxRdAtomic  = 128
	maxMsgSize   = 1 << 31 // IBTA vol. 1, 9.7.2: messages of 0 to 2^31 bytes
	maxMRSize    = 1 << 46
	portMTU      = verbs.MTU4096
	defaultDelay = 15 // local CA ACK delay code, 134 ms
)

// device implements verbs.Device. Its methods may be called from any goroutine;
// mu guards the tables that are not on the data path.
type device struct {
	cfg   Config
	attr  verbs.DeviceAttr
	users userPolicy
	conns *userLimit
	maps  *mappingLimit
	spare spareDescriptors
	start time.Time // zero of the device's clock
	mrs   mrTable
	async *asyncQueue
	udp   *udpPorts
	gids  gidTable
	mux   *madMux
	// access refuses connections of sources that guess remote keys.
	access accessLimit

	freePorts func() (portRange, error) // what the system said first

	mu     sync.Mutex
	closed bool
	shards map[shardKey]*shard
	qps    map[uint32]*qp     // by number
	ends   map[endKey]*shmEnd // offered, not yet taken
	counts map[objectKind]int // open objects, for ErrBusy and the limits

	local   counters    // counters of connection management on the local path
	counted []*counters // of connection management, and of every shard that was ever made
}

type shardKey struct {
	vector   int
	progress verbs.Progress
}

// slot is the shard's number, below Config.slots.
func (k shardKey) slot() uint32 { return 2*uint32(k.vector) + uint32(k.progress) }

// endKey names a connection by the two queue pairs, seen from one of them. The
// peer is 0 when the offer does not name it.
type endKey struct{ own, peer uint32 }

// objectKind counts what keeps a device busy.
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
	ports := &udpPorts{udpPort: cfg.WirePort, slots: cfg.slots(), farOnly: cfg.Path == PathAuto, ports: make(map[netip.Addr]*udpPort)}
	users := newUserPolicy(cfg)
	attr := deviceAttr(cfg, binary.BigEndian.Uint64(guid[:]))
	d := &device{
		cfg:       *cfg,
		attr:      attr,
		users:     users,
		conns:     newUserLimit(cfg, users),
		udp:       ports,
		gids:      gidTable{udp: ports},
		mux:       newMADMux(attr.NodeGUID, cfg, &udpMADs{ports}, &ports.counts),
		freePorts: sync.OnceValues(ephemeralPorts),
		start:     time.Now(),
		async:     async,
		shards:    make(map[shardKey]*shard),
		qps:       make(map[uint32]*qp),
		ends:      make(map[endKey]*shmEnd),
		counts:    make(map[objectKind]int),
	}
	d.maps = newMappingLimit(&d.local)
	d.counted = []*counters{&ports.counts, &d.local}
	d.access.counts, d.mux.access = &d.local, &d.access
	return d, nil
}

func deviceAttr(cfg *Config, guid uint64) verbs.DeviceAttr {
	return verbs.DeviceAttr{
		// A fresh GUID for each start: peers tell an old connection of this
		// number from a new one by it.
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
		MaxPD:           maxPD,
		MaxAH:           maxAH,
		MaxSRQ:          maxSRQ,
		MaxSRQWR:        maxWR,
		MaxSRQSGE:       maxSGE,
		MaxQPRdAtom:     maxRdAtomic,
		MaxQPInitRdAtom: maxRdAtomic,
		LocalCAAckDelay: defaultDelay,
	}
}

func (d *device) Name() string { return "soft0" }

func (d *device) Attr() verbs.DeviceAttr { return d.attr }

func (d *device) Caps() verbs.Caps {
	return verbs.Caps{
		Atomics:          true,
		WriteImm:         true,
		SRQ:              true,
		UD:               true,
		ResizeCQ:         true,
		LoopbackAddrs:    true,
		ExactPrivateData: d.cfg.Path == PathLocal,
		ProgressManual:   true,
	}
}

// Port describes the one port. Its GIDs are the addresses of the host at the
// time of the call, and those of 127.0.0.0/8 that are in use.
func (d *device) Port(num uint8) (verbs.PortAttr, error) {
	if err := checkPort(num); err != nil {
		return verbs.PortAttr{}, verbs.Wrap("query port", err)
	}
	gids, err := d.gids.all()
	if err != nil {
		return verbs.PortAttr{}, verbs.Wrap("query port", err)
	}
	return verbs.PortAttr{
		State:      verbs.PortActive,
		MaxMTU:     portMTU,
		ActiveMTU:  portMTU,
		MaxMsgSize: maxMsgSize,
		GIDs:       gids,
	}, nil
}

func checkPort(num uint8) error {
	if num != 1 {
		return &verbs.ParamError{Field: "port", Value: int64(num), Limit: 1, Reason: "ports count from 1, and there is one"}
	}
	return nil
}

func (d *device) AsyncFD() int { return d.async.fd }

func (d *device) NextAsync(ev *verbs.AsyncEvent) (bool, error) { return d.async.next(ev) }

// now is the device's clock: nanoseconds since it was opened.
func (d *device) now() int64 { return int64(time.Since(d.start)) }

// add counts a new object of a kind, within its limit.
func (d *device) add(kind objectKind, name string, limit int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	if d.counts[kind] >= limit {
		return &verbs.ParamError{Field: name, Value: int64(d.counts[kind]) + 1, Limit: int64(limit)}
	}
	d.counts[kind]++
	return nil
}

func (d *device) remove(kind objectKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[kind]--
}

// own gives a shard in manual progress to the channel that asks first: two
// owners would race.
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

// shard returns the shard of a vector, made when it is first asked for.
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
	d.counted = append(d.counted, s.counts)
	return s, nil
}

// register gives a queue pair its number, which says which shard it is of:
// random, so that a number is not soon met again, with 0, 1 (the CM's) and
// 0xffffff (multicast) left out.
func (d *device) register(q *qp, reserve func(num uint32) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.qps) >= maxQP {
		return &verbs.ParamError{Field: "queue pairs", Value: int64(len(d.qps)) + 1, Limit: maxQP}
	}
	var err error
	for range 1000 { // by then the space is full, or reserve fails for good
		num := d.cfg.numberFor(q.shard.udp.slot, randomUint32()&max24)
		if num < 2 || num >= wire.MulticastQPN || d.qps[num] != nil {
			continue
		}
		if err = reserve(num); err != nil {
			continue
		}
		q.num = num
		d.qps[num] = q
		return nil
	}
	return err
}

func (d *device) unregister(q *qp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.qps, q.num)
}

// waitForShards returns when every shard in automatic progress has ended what it was
// doing. One in manual progress belongs to a goroutine, whose own affair it is.
func (d *device) waitForShards() {
	d.mu.Lock()
	shards := slices.Collect(maps.Values(d.shards))
	d.mu.Unlock()
	for _, s := range shards {
		s.mu.Lock()
		//lint:ignore SA2001 to have had it is what matters
		s.mu.Unlock()
	}
}

func (d *device) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

func (d *device) close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	for _, n := range d.counts {
		if n > 0 {
			d.mu.Unlock()
			return verbs.ErrBusy
		}
	}
	d.closed = true
	shards := d.shards
	ends := d.ends
	d.shards, d.ends = nil, nil
	d.mu.Unlock()

	for _, end := range ends {
		end.release()
	}
	for _, s := range shards {
		s.close()
	}
	d.async.close()
	return nil
}

func randomUint32() uint32 {
	var b [4]byte
	// crypto/rand.Read never fails on Linux; see its documentation.
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

// clampUint32 is n as a uint32, for counters that can not be larger.
func clampUint32(n int) uint32 { return uint32(min(uint64(n), math.MaxUint32)) }
