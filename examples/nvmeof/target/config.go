package target

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// Limits of a target.
const (
	queueSize = 128     // largest number of commands in flight on an I/O queue
	adminSize = 32      // largest number on an admin queue; Linux hosts use no more
	maxData   = 1 << 20 // largest number of bytes of data of one command
	inCapsule = 4096    // largest number of bytes of data in a capsule
	// maxInFlight is the size of a send queue. A command needs at most two places: one for
	// a WRITE and one for the SEND of its response. There are spare places, because the
	// host can send its next command before the loop gets the completion of that SEND.
	maxInFlight = 2*queueSize + queueSize/4
	// maxOnLoop is the largest number of bytes that a loop copies from or to a disk. The
	// copy takes about 10 us. Arbitrary.
	maxOnLoop   = 64 << 10
	blocksLimit = 1 << 52 // largest number of blocks of a disk; offsets stay below 2^64
	// slowCallback is the duration of a callback that is reported. A host whose message is
	// not acknowledged for about two seconds sends it again.
	slowCallback = time.Second
)

// A Disk stores the blocks of a namespace. Any goroutine may call its methods, several at
// the same time. Offsets and lengths are in bytes, inside the disk.
type Disk interface {
	Size() int64
	ReadOnly() bool
	ReadAt(b []byte, offset int64) error
	// WriteAt returns when the data would survive the end of this process.
	WriteAt(b []byte, offset int64) error
	// Flush makes all data durable that was stored before.
	Flush() error
	Zero(offset, n int64) error
	Discard(offset, n int64) error
}

// An ImmediateDisk is a Disk that can be used without waiting for a device. A loop uses
// such a disk itself for short reads and writes. That saves the switch to the goroutine
// of a worker and back. The methods do what ReadAt and WriteAt do. If they would have to
// wait, they return false for done.
type ImmediateDisk interface {
	TryReadAt(b []byte, offset int64) (done bool, err error)
	TryWriteAt(b []byte, offset int64) (done bool, err error)
}

// A Namespace is one disk of a subsystem.
type Namespace struct {
	Disk      Disk
	BlockSize int // bytes of a block: 512 or 4096
	ReadOnly  bool
}

// A Subsystem has the disks that a host sees together.
type Subsystem struct {
	NQN string
	// Namespaces[i] has the namespace identifier i+1.
	Namespaces []Namespace
	// Hosts has the NQNs of the hosts that may connect. A host can claim any NQN, so the
	// list prevents mistakes and not attacks.
	Hosts   []string
	AnyHost bool // every host may connect

	described []nvme.Namespace // for each element of Namespaces, its answer to Identify
}

// Config configures a Target.
type Config struct {
	Subsystems []*Subsystem
	// Memory is the size of the data buffers of each loop in bytes. Zero means 64 MiB. A
	// command waits if no buffer is free.
	Memory int
	// Workers is the number of goroutines that use the disks. Zero means 16.
	Workers int
	// MaxControllers is the number of controllers at a time. Zero means 64.
	MaxControllers int
	// Queues is the number of I/O queues of one controller. Zero means 16.
	Queues int
	// NoCapsuleData tells hosts not to send data in capsules. The target then fetches the
	// data of every write with READ, even if the write is small.
	NoCapsuleData bool
	// Log gets a record for each queue that begins or ends, and for each loop that ends and
	// had slow callbacks. Nil means no records.
	Log *slog.Logger
}

// setDefaults replaces fields that are zero.
func (cfg *Config) setDefaults() {
	for field, usual := range map[*int]int{
		&cfg.Memory: 64 << 20, &cfg.Workers: 16, &cfg.MaxControllers: 64, &cfg.Queues: 16,
	} {
		if *field == 0 {
			*field = usual
		}
	}
	cfg.Memory = max(cfg.Memory&^(maxData-1), maxData)
}

// allows reports whether a host may use the subsystem.
func (s *Subsystem) allows(host string) bool { return s.AnyHost || slices.Contains(s.Hosts, host) }

// prepare checks the subsystem, and computes what hosts are told about its namespaces.
func (s *Subsystem) prepare() error {
	if len(s.NQN) == 0 || len(s.NQN) > nvme.MaxNQN || s.NQN == nvme.NQNDiscovery {
		return fmt.Errorf("%q can not be the name of a subsystem", s.NQN)
	}
	s.described = nil
	for i := range s.Namespaces {
		n := &s.Namespaces[i]
		if n.BlockSize != 512 && n.BlockSize != 4096 {
			return fmt.Errorf("%s: blocks of %d bytes instead of 512 or 4096", s.NQN, n.BlockSize)
		}
		blocks := n.Disk.Size() / int64(n.BlockSize)
		if blocks < 1 || blocks > blocksLimit {
			return fmt.Errorf("%s: a disk of %d bytes", s.NQN, n.Disk.Size())
		}
		n.ReadOnly = n.ReadOnly || n.Disk.ReadOnly()
		s.described = append(s.described, nvme.Namespace{
			Blocks: uint64(blocks), BlockSize: n.BlockSize, ReadOnly: n.ReadOnly, UUID: s.uuid(i),
		})
	}
	return nil
}

// uuid returns the identity of a namespace. It must stay the same when the target is
// started again, because a host removes a disk whose identity has changed.
func (s *Subsystem) uuid(index int) (id [16]byte) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", s.NQN, index+1))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0F | 0x80 // version 8: no meaning (RFC 9562, 5.8)
	id[8] = id[8]&0x3F | 0x80 // variant of RFC 9562, 4.1
	return id
}

// Configure changes the configuration of an engine, whose Handler is the target, to what the
// target needs.
//
// A host that gets an RNR NAK may fail, so each connection has a receive buffer for every
// command of its queue. A host may also fail if a loop stops for some time, so slow callbacks
// are counted, and reported when the loop ends.
func (t *Target) Configure(cfg *reactor.Config) {
	cfg.OnBoot, cfg.OnShutdown = t.boot, t.shutdown
	cfg.MaxMessage = nvme.CommandSize + inCapsule
	cfg.Memory.MinRecvBuffers = queueSize
	cfg.MaxInFlight = maxInFlight
	cfg.Transport.RNRRetryCount = 7
	cfg.Limits.SlowCallback = slowCallback
}
