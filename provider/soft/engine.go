//go:build linux

package soft

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// These limits bound the memory that one caller can allocate. They are arbitrary if no
// comment gives a reason.
const (
	maxQP       = 1 << 20
	maxWR       = 1 << 15
	maxSRQWR    = 1 << 20
	maxSGE      = 16
	maxInline   = 1 << 10
	maxCQ       = 1 << 16
	maxCQE      = 1 << 22
	maxPD       = 1 << 16
	maxAH       = 1 << 20
	maxSRQ      = 1 << 16
	maxRdAtomic = 128
	maxMsgSize  = 1 << 31 // messages have 0 to 2^31 bytes (IBTA vol. 1, 9.7.2)
	maxMRSize   = 1 << 46
)

// limits returns the attributes of a device that say what its engine allows.
func limits() verbs.DeviceAttr {
	return verbs.DeviceAttr{
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
	}
}

// A host is the device that an engine is a part of. It knows the ways to a peer.
type host interface {
	// The methods of verbs.Device are for the objects of the engine, which name their device.
	verbs.Device
	// connect makes the path of an RC queue pair that enters RTR with the attributes attr.
	// It calls useLocal or useWire of the queue pair.
	connect(q *qp, attr *verbs.QPAttr) error
	// newDatagramPath makes the path of a new UD queue pair.
	newDatagramPath(q *qp) datagramPath
	// resolve finds the destination of an address handle.
	resolve(attr *verbs.AHAttr) (destination, error)
	// receiveMAD processes a packet for connection management, and returns false if there
	// is nobody who takes it.
	receiveMAD(p wire.Packet, from *udp.Header) (taken bool)
	// addShard is called for each new shard, while the engine holds mu.
	addShard(s *shard)
}

// An engineConfig configures an engine.
type engineConfig struct {
	host    host
	vectors int                  // number of completion vectors
	clock   func() time.Duration // function that returns the time since the device was opened
	ports   *udp.Ports           // UDP ports of the device
	// limit of the regions that peers on this host can map; nil if all regions are private
	regions *shm.RegionLimit
	// access counts the errors and violations of each source.
	access *access.ErrorLimit
}

// An engine has the protection domains, memory regions, queues and queue pairs of a
// device, and its shards. Any goroutine may call its methods. The mutex mu guards the
// fields after it.
type engine struct {
	engineConfig
	mrs   mrTable
	async *asyncQueue

	mu     sync.Mutex
	closed bool
	shards map[shardKey]*shard
	qps    map[uint32]*qp // open queue pairs by number
	// number of open objects of each kind, for ErrBusy and for the limits
	objects map[objectKind]int
}

func newEngine(cfg engineConfig) (*engine, error) {
	async, err := newAsyncQueue()
	if err != nil {
		return nil, err
	}
	return &engine{
		engineConfig: cfg, async: async,
		shards: make(map[shardKey]*shard), qps: make(map[uint32]*qp), objects: make(map[objectKind]int),
	}, nil
}

// AsyncFD implements verbs.Device.
func (e *engine) AsyncFD() int { return e.async.event.FD() }

// NextAsync implements verbs.Device.
func (e *engine) NextAsync(ev *verbs.AsyncEvent) (bool, error) { return e.async.next(ev) }

type shardKey struct {
	vector   int
	progress verbs.Progress
}

// slot returns the number of the shard: twice its completion vector in automatic
// progress, and one more in manual progress.
func (k shardKey) slot() uint32 { return 2*uint32(k.vector) + uint32(k.progress) }

// shardsOf returns the largest number of shards of a device: two for each completion
// vector. The remainder of a queue pair number divided by it is the number of the shard.
func shardsOf(vectors int) uint32 { return 2 * uint32(vectors) }

// numberFor returns a queue pair number that belongs to the shard with the number slot.
// The random number num chooses among the possible numbers.
func (e *engine) numberFor(slot, num uint32) uint32 { return num - num%shardsOf(e.vectors) + slot }

// shard returns the shard of a completion vector and progress mode, and makes it if
// needed.
func (e *engine) shard(vector int, progress verbs.Progress) (*shard, error) {
	if vector < 0 || vector >= e.vectors {
		return nil, &verbs.ParamError{Field: "vector", Value: int64(vector), Limit: int64(e.vectors - 1)}
	}
	if progress > verbs.ProgressManual {
		return nil, &verbs.ParamError{Field: "progress", Value: int64(progress), Limit: int64(verbs.ProgressManual)}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, verbs.ErrClosed
	}
	key := shardKey{vector, progress}
	if s := e.shards[key]; s != nil {
		return s, nil
	}
	s, err := newShard(e, key)
	if err != nil {
		return nil, err
	}
	e.shards[key] = s
	e.host.addShard(s)
	return s, nil
}

// claimShard makes a completion channel the only owner of a shard in manual progress.
func (e *engine) claimShard(s *shard) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.owned {
		return verbs.ErrBusy
	}
	s.owned = true
	return nil
}

func (e *engine) releaseShard(s *shard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.owned = false
}

// waitForShards waits until each shard in automatic progress has finished its present
// call. That call may still use a region that was closed.
func (e *engine) waitForShards() {
	e.mu.Lock()
	shards := slices.Collect(maps.Values(e.shards))
	e.mu.Unlock()
	for _, s := range shards {
		s.mu.Lock()
		//lint:ignore SA2001 taking the lock waits for the end of the running call
		s.mu.Unlock()
	}
}

// register gives a queue pair a random number that belongs to its shard; see shardsOf. The
// numbers 0, 1 and 0xffffff are reserved, and the function reserve may refuse others.
func (e *engine) register(q *qp, reserve func(num uint32) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.qps) >= maxQP {
		return &verbs.ParamError{Field: "queue pairs", Value: int64(len(e.qps)) + 1, Limit: maxQP}
	}
	err := errNoQPNumber
	// Most random numbers are free. The limit of 1000 attempts is arbitrary.
	for range 1000 {
		num := e.numberFor(q.shard.slot, random.Uint32()&verbs.MaxQPNum)
		if num < 2 || num >= wire.MulticastQPN || e.qps[num] != nil {
			continue
		}
		if refused := reserve(num); refused != nil {
			err = refused
			continue
		}
		q.num = num
		e.qps[num] = q
		return nil
	}
	return err
}

var errNoQPNumber = fmt.Errorf("%w: the queue pair numbers of the completion vector are in use", verbs.ErrNoResources)

func (e *engine) unregister(q *qp) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.qps, q.num)
}

// qp returns the open queue pair with a number, or nil.
func (e *engine) qp(num uint32) *qp {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.qps[num]
}

// qpsOn returns the queue pairs that use a CQ.
func (e *engine) qpsOn(c *cq) (on []*qp) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range e.qps {
		if q.sendCQ == c || q.recvCQ == c {
			on = append(on, q)
		}
	}
	return on
}

// objectKind is a kind of objects that have to be closed before the device.
type objectKind uint8

const (
	objPD objectKind = iota
	objCQ
	objChannel
	objEventChannel
)

// add counts a new object of a kind, up to the limit. The error for too many objects
// contains the name, such as "completion queues".
func (e *engine) add(kind objectKind, name string, limit int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return verbs.ErrClosed
	}
	if e.objects[kind] >= limit {
		return &verbs.ParamError{Field: name, Value: int64(e.objects[kind]) + 1, Limit: int64(limit)}
	}
	e.objects[kind]++
	return nil
}

func (e *engine) remove(kind objectKind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.objects[kind]--
}

// openObjects returns the numbers of open objects, such as "1 CQ, 2 PD". The caller
// holds mu.
func (e *engine) openObjects() string {
	var list []string
	for kind, name := range [...]string{objPD: "PD", objCQ: "CQ", objChannel: "completion channel", objEventChannel: "event channel"} {
		if n := e.objects[objectKind(kind)]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(list, ", ")
}

func (e *engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// close closes the engine, and calls the function release after the last call of a shard
// has ended and before the descriptors of the shards are closed. It returns verbs.ErrBusy
// while objects are open. A second call does nothing.
func (e *engine) close(release func()) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	if open := e.openObjects(); open != "" {
		e.mu.Unlock()
		return fmt.Errorf("%w: open objects of the device: %s", verbs.ErrBusy, open)
	}
	e.closed = true
	shards := e.shards
	e.shards = nil
	e.mu.Unlock()

	for _, s := range shards {
		s.stop()
	}
	release()
	for _, s := range shards {
		s.close()
	}
	e.async.close()
	return nil
}
