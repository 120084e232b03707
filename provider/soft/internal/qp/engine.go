//go:build linux

package qp

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
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
	MaxRdAtomic = 128
	MaxMsgSize  = 1 << 31 // messages have 0 to 2^31 bytes (IBTA vol. 1, 9.7.2)
	maxMRSize   = 1 << 46
)

// Limits returns the attributes of a device that say what its engine allows.
func Limits() verbs.DeviceAttr {
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
		MaxQPRdAtom:     MaxRdAtomic,
		MaxQPInitRdAtom: MaxRdAtomic,
	}
}

// A Host is the device that an engine is a part of. It knows the ways to a peer.
type Host interface {
	// The methods of verbs.Device are for the objects of the engine, which name their device.
	verbs.Device
	// Connect makes the path of an RC queue pair that enters RTR with the attributes attr.
	// It calls UseLocal or UseWire of the queue pair.
	Connect(q *QP, attr *verbs.QPAttr) error
	// NewDatagramPath makes the path of a new UD queue pair.
	NewDatagramPath(q *QP) DatagramPath
	// Resolve finds the destination of an address handle.
	Resolve(attr *verbs.AHAttr) (Destination, error)
	// ReceiveMAD processes a packet for connection management, and returns false if there
	// is nobody who takes it.
	ReceiveMAD(p wire.Packet, from *udp.Header) (taken bool)
	// NewSockets makes the sockets of a new shard. The shard is their udp.Sink and
	// udp.Watcher.
	NewSockets(s *Shard) Sockets
	// AddShard is called for each new shard, while the engine holds mu.
	AddShard(s *Shard)
}

// A Config configures an engine.
type Config struct {
	Host    Host
	Sim     simhost.Host         // simulated host; nil on this host
	Vectors int                  // number of completion vectors
	Clock   func() time.Duration // function that returns the time since the device was opened
	// limit of the regions that peers on this host can map; nil if all regions are private
	Regions *shm.RegionLimit
	// Access counts the errors and violations of each source.
	Access *access.ErrorLimit
	// Capture records the packets of the shards. It may be nil.
	Capture *capture.Capture
}

// An Engine has the protection domains, memory regions, queues and queue pairs of a
// device, and its shards. Any goroutine may call its methods. The mutex mu guards the
// fields after it.
type Engine struct {
	Config
	mrs    mrTable
	async  *asyncQueue
	random random.Source // source of all numbers that a peer must not guess
	// Memory has the gauges of the bytes of memory regions.
	Memory counters.Set

	failed atomic.Bool  // true after Fail
	made   atomic.Int32 // number of shards

	mu     sync.Mutex
	closed bool
	shards map[shardKey]*Shard
	owned  map[*Shard]bool // shards in manual progress that a completion channel owns
	qps    map[uint32]*QP  // open queue pairs by number
	// number of open objects of each kind, for ErrBusy and for the limits
	objects map[ObjectKind]int
}

// New returns an engine without objects. Errors: those of the system, such as a lack of
// descriptors.
func New(cfg Config) (*Engine, error) {
	async, err := newAsyncQueue()
	if err != nil {
		return nil, err
	}
	from := random.From(cfg.Sim)
	return &Engine{
		Config: cfg, async: async, mrs: mrTable{random: from}, random: from,
		shards: make(map[shardKey]*Shard), owned: make(map[*Shard]bool), qps: make(map[uint32]*QP), objects: make(map[ObjectKind]int),
	}, nil
}

// AsyncFD implements verbs.Device.
func (e *Engine) AsyncFD() int { return e.async.event.FD() }

// NextAsync implements verbs.Device.
func (e *Engine) NextAsync(ev *verbs.AsyncEvent) (bool, error) { return e.async.next(ev) }

type shardKey struct {
	vector   int
	progress verbs.Progress
}

// slot returns the number of the shard: twice its completion vector in automatic
// progress, and one more in manual progress.
func (k shardKey) slot() uint32 { return 2*uint32(k.vector) + uint32(k.progress) }

// ShardsOf returns the largest number of shards of a device: two for each completion
// vector. The remainder of a queue pair number divided by it is the number of the shard.
func ShardsOf(vectors int) uint32 { return 2 * uint32(vectors) }

// numberFor returns a queue pair number that belongs to the shard with the number slot.
// The random number num chooses among the possible numbers.
func (e *Engine) numberFor(slot, num uint32) uint32 { return num - num%ShardsOf(e.Vectors) + slot }

// Shard returns the shard of a completion vector and progress mode, and makes it if
// needed.
func (e *Engine) Shard(vector int, progress verbs.Progress) (*Shard, error) {
	if err := operr.CheckRange("vector", vector, 0, e.Vectors-1); err != nil {
		return nil, err
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
	e.made.Add(1)
	e.Host.AddShard(s)
	return s, nil
}

// shardsMade returns the number of shards, at least 1.
func (e *Engine) shardsMade() int { return max(1, int(e.made.Load())) }

// claimShard makes a completion channel the only owner of a shard in manual progress.
func (e *Engine) claimShard(s *Shard) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owned[s] {
		return fmt.Errorf("%w: another completion channel has the completion vector", verbs.ErrBusy)
	}
	e.owned[s] = true
	return nil
}

func (e *Engine) releaseShard(s *Shard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.owned, s)
}

// waitForShards waits until each shard in automatic progress has finished its present
// call. That call may still use a region that was closed.
func (e *Engine) waitForShards() {
	e.mu.Lock()
	shards := slices.Collect(maps.Values(e.shards))
	e.mu.Unlock()
	for _, s := range shards {
		s.mu.Lock()
		//lint:ignore SA2001 taking the lock waits for the end of the running call
		s.mu.Unlock()
	}
}

// register gives a queue pair a random number that belongs to its shard; see ShardsOf. The
// numbers 0, 1 and 0xffffff are reserved, and the function reserve may refuse others.
func (e *Engine) register(q *QP, reserve func(num uint32) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.qps) >= maxQP {
		return &verbs.ParamError{Field: "queue pairs", Value: int64(len(e.qps)) + 1, Limit: maxQP}
	}
	err := errNoQPNumber
	// Most random numbers are free. The limit of 1000 attempts is arbitrary.
	for range 1000 {
		num := e.numberFor(q.Shard.Slot, e.random.Uint32()&verbs.MaxQPNum)
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

func (e *Engine) unregister(q *QP) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.qps, q.num)
}

// QP returns the open queue pair with a number, or nil.
func (e *Engine) QP(num uint32) *QP {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.qps[num]
}

// Fail makes the device fail, as hardware can: it raises verbs.AsyncDeviceFatal, moves all
// queue pairs to the error state, and makes none ready again. Only a simulation calls it, on
// the goroutine of all its shards.
func (e *Engine) Fail() {
	if e.failed.Swap(true) {
		return
	}
	e.mu.Lock()
	numbers := slices.Sorted(maps.Keys(e.qps))
	e.mu.Unlock()
	for _, n := range numbers {
		if q := e.QP(n); q != nil && q.state != verbs.StateReset && q.state != verbs.StateError {
			q.Shard.Enter()
			q.enterError()
			q.Shard.Leave()
		}
	}
	e.async.push(verbs.AsyncEvent{Type: verbs.AsyncDeviceFatal})
}

// qpsOn returns the queue pairs that use a CQ, in the order of their numbers.
func (e *Engine) qpsOn(c *cq) (on []*QP) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range e.qps {
		if q.sendCQ == c || q.recvCQ == c {
			on = append(on, q)
		}
	}
	slices.SortFunc(on, func(a, b *QP) int { return cmp.Compare(a.num, b.num) })
	return on
}

// An ObjectKind is a kind of objects that have to be closed before the device.
type ObjectKind uint8

const (
	objPD ObjectKind = iota
	objCQ
	objChannel
	// ObjEventChannel is the kind of the event channels of connection management.
	ObjEventChannel
)

// Add counts a new object of a kind, up to the limit. The error for too many objects
// contains the name, such as "completion queues".
func (e *Engine) Add(kind ObjectKind, name string, limit int) error {
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

// Remove undoes Add.
func (e *Engine) Remove(kind ObjectKind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.objects[kind]--
}

// openObjects returns the numbers of open objects, such as "1 CQ, 2 PD". The caller
// holds mu.
func (e *Engine) openObjects() string {
	var list []string
	for kind, name := range [...]string{objPD: "PD", objCQ: "CQ", objChannel: "completion channel", ObjEventChannel: "event channel"} {
		if n := e.objects[ObjectKind(kind)]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(list, ", ")
}

// IsClosed reports whether Close has closed the engine.
func (e *Engine) IsClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// Close closes the engine, and calls the function release after the last call of a shard
// has ended and before the descriptors of the shards are closed. It returns verbs.ErrBusy
// while objects are open. A second call does nothing.
func (e *Engine) Close(release func()) error {
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
	shards := slices.SortedFunc(maps.Values(e.shards), func(a, b *Shard) int { return cmp.Compare(a.Slot, b.Slot) })
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
