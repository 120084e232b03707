//go:build linux

package hostile

import (
	"errors"
	"runtime"
	"sync"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/target"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// Properties of the target. Its data buffers have room for four of the largest commands,
// so that a host can occupy all of them.
const (
	nvmeSubsystem = "nqn.2026-11.example:hostile"
	nvmeBlock     = 512
	nvmeDisk      = 8 << 20
	nvmeBuffers   = 4 << 20
)

// An nvmeTarget is the NVMe target of examples/nvmeof with a disk in memory.
type nvmeTarget struct {
	node
	*target.Target
	closed kinds
}

// OnClose counts the error.
func (s *nvmeTarget) OnClose(c *reactor.Conn, err error) {
	s.closed.count(err)
	s.Target.OnClose(c, err)
}

func (s *nvmeTarget) start(spec *Spec) (note Note, err error) {
	s.Target, err = target.New(&target.Config{Memory: nvmeBuffers, Workers: 2, Subsystems: []*target.Subsystem{{
		NQN: nvmeSubsystem, AnyHost: true,
		Namespaces: []target.Namespace{{Disk: &memoryDisk{bytes: make([]byte, nvmeDisk)}, BlockSize: nvmeBlock}},
	}}}, 1)
	if err != nil {
		return note, err
	}
	settings := &soft.Config{Path: spec.Path}
	if spec.AnyUser {
		settings.AllowedUsers = []uint32{soft.AnyUser}
	}
	if s.device, err = soft.Open(settings); err != nil {
		return note, err
	}
	cfg := &reactor.Config{
		Transport: reactor.Transport{Keepalive: spec.Keepalive, AckTimeout: spec.AckTimeout},
		Limits:    reactor.Limits{ConnectTimeout: spec.ConnectTimeout, DrainTimeout: spec.DrainTimeout},
	}
	s.Configure(cfg)
	if s.engine, err = reactor.New(s.device, s, cfg); err == nil {
		err = s.engine.Start()
	}
	if err != nil {
		return note, err
	}
	listener, err := s.engine.Listen(spec.Addr, nil)
	if err != nil {
		return note, err
	}
	return Note{Addr: listener.Addr()}, nil
}

func (s *nvmeTarget) report() Note {
	stats := s.engine.Stats()
	return Note{Server: ServerState{
		Conns: stats.Conns, Opened: stats.Opened, Requests: stats.Requests,
		Goroutines: runtime.NumGoroutine(), Longest: stats.LongestTurn, Counters: s.counters(), Closed: s.closed.copy(),
	}}
}

func (s *nvmeTarget) await() {}

// finish closes the target, which panics if a command or buffer was not released.
func (s *nvmeTarget) finish() (Note, error) {
	note := s.report()
	return note, s.close()
}

// A memoryDisk is a target.Disk in memory.
type memoryDisk struct {
	mu    sync.Mutex
	bytes []byte
}

// Size returns the size in bytes.
func (d *memoryDisk) Size() int64 { return int64(len(d.bytes)) }

// ReadOnly returns false.
func (d *memoryDisk) ReadOnly() bool { return false }

var errDiskRange = errors.New("bytes outside of the disk")

// use calls fn with n bytes at the offset.
func (d *memoryDisk) use(offset, n int64, fn func(part []byte)) error {
	if offset < 0 || n < 0 || offset > d.Size()-n {
		return errDiskRange
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	fn(d.bytes[offset : offset+n])
	return nil
}

// ReadAt reads b.
func (d *memoryDisk) ReadAt(b []byte, offset int64) error {
	return d.use(offset, int64(len(b)), func(part []byte) { copy(b, part) })
}

// WriteAt stores b.
func (d *memoryDisk) WriteAt(b []byte, offset int64) error {
	return d.use(offset, int64(len(b)), func(part []byte) { copy(part, b) })
}

// Flush does nothing.
func (d *memoryDisk) Flush() error { return nil }

// Zero stores zeros.
func (d *memoryDisk) Zero(offset, n int64) error {
	return d.use(offset, n, func(part []byte) { clear(part) })
}

// Discard stores zeros.
func (d *memoryDisk) Discard(offset, n int64) error { return d.Zero(offset, n) }
