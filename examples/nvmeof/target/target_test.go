package target_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/initiator"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/target"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

const (
	subsystem = "nqn.2026-11.example:disk"
	hostNQN   = "nqn.2026-11.example:host"
	diskSize  = 8 << 20
	blockSize = 512
)

// A memoryDisk is a Disk in memory. Its hook can delay or fail an operation.
type memoryDisk struct {
	mu      sync.Mutex
	bytes   []byte
	flushes int
	hook    func(operation string, offset int64) error
}

func (d *memoryDisk) call(operation string, offset int64) error {
	d.mu.Lock()
	hook := d.hook
	d.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(operation, offset)
}

func (d *memoryDisk) setHook(hook func(operation string, offset int64) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = hook
}

func (d *memoryDisk) Size() int64    { return int64(len(d.bytes)) }
func (d *memoryDisk) ReadOnly() bool { return false }

func (d *memoryDisk) ReadAt(b []byte, offset int64) error {
	if err := d.call("read", offset); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(b, d.bytes[offset:])
	return nil
}

func (d *memoryDisk) WriteAt(b []byte, offset int64) error {
	if err := d.call("write", offset); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.bytes[offset:], b)
	return nil
}

func (d *memoryDisk) Flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushes++
	return nil
}

func (d *memoryDisk) Zero(offset, n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.bytes[offset : offset+n])
	return nil
}

func (d *memoryDisk) flushed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.flushes
}

// part returns a copy of n bytes at the offset.
func (d *memoryDisk) part(offset, n int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(d.bytes[offset:][:n])
}

func (d *memoryDisk) Discard(offset, n int64) error { return d.Zero(offset, n) }

// A fixture is a running target with one disk, and a host.
type fixture struct {
	*testing.T
	disk     *memoryDisk
	wirePort uint16         // UDP port of the wire path
	device   *soft.Provider // device of the target
	engine   *reactor.Engine
	target   *target.Target
	listener *reactor.Listener
	host     *initiator.Host
	memory   *reactor.Region // memory of the host
}

func start(t *testing.T, path soft.Path, change func(*target.Config)) *fixture {
	f := &fixture{T: t, disk: &memoryDisk{bytes: make([]byte, diskSize)}, wirePort: freeport.UDP(t)}
	cfg := &target.Config{Memory: 4 << 20, Workers: 4, Subsystems: []*target.Subsystem{{
		NQN: subsystem, Hosts: []string{hostNQN},
		Namespaces: []target.Namespace{{Disk: f.disk, BlockSize: blockSize}},
	}}}
	if change != nil {
		change(cfg)
	}
	const loops = 2
	var err error
	f.target, err = target.New(cfg, loops)
	require.NoError(t, err)
	f.device = f.open(path)
	engineConfig := &reactor.Config{NumLoops: loops}
	f.target.Configure(engineConfig)
	f.engine, err = reactor.New(f.device, f.target, engineConfig)
	require.NoError(t, err)
	require.NoError(t, f.engine.Start())
	t.Cleanup(func() { require.NoError(t, f.engine.Shutdown(context.Background())) })
	f.listener, err = f.engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)

	f.host = f.newHost(path, hostNQN, 1)
	f.memory, err = f.host.Alloc(4 << 20)
	require.NoError(t, err)
	return f
}

func (f *fixture) open(path soft.Path) *soft.Provider {
	p, err := soft.Open(&soft.Config{Path: path, WirePort: f.wirePort})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, p.Close()) })
	return p
}

func (f *fixture) newHost(path soft.Path, nqn string, id byte) *initiator.Host {
	h, err := initiator.NewHost(f.open(path), &initiator.Config{
		NQN: nqn, ID: [16]byte{id}, From: netip.AddrFrom4([4]byte{127, 0, 0, 1 + id}),
		Reactor: reactor.Config{MaxInFlight: 256, MaxMessage: 64 + 4096},
	})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, h.Close()) })
	return h
}

// connect connects the host, with n I/O queues.
func (f *fixture) connect(n int) *initiator.Controller {
	c, err := f.host.Connect(f.Context(), f.listener.Addr(), subsystem)
	require.NoError(f, err)
	if n > 0 {
		require.NoError(f, c.OpenQueues(f.Context(), n, 32))
	}
	return c
}

// do sends a command and returns its status.
func (f *fixture) do(q *initiator.Queue, r *initiator.Request) nvme.Status {
	resp, err := q.Do(f.Context(), r)
	if status := nvme.Status(0); errors.As(err, &status) {
		return status
	}
	require.NoError(f, err)
	return resp.Status
}

func paths(t *testing.T, test func(t *testing.T, path soft.Path)) {
	for name, path := range map[string]soft.Path{"local": soft.PathLocal, "wire": soft.PathWire} {
		t.Run(name, func(t *testing.T) { test(t, path) })
	}
}

// TestKeysAreInvalidated checks that a response makes the key of its command invalid, if
// the host has asked for that, also when the command has failed.
func TestKeysAreInvalidated(t *testing.T) {
	paths(t, func(t *testing.T, path soft.Path) {
		f := start(t, path, nil)
		c := f.connect(1)
		data := reactor.Piece{Region: f.memory, Length: 4096}
		do := func(opcode uint8, block uint64) nvme.Status {
			r := initiator.Transfer(opcode, 1, block, 4096/blockSize, data)
			r.Show = true
			return f.do(c.IO[0], r)
		}
		for i := range 100 { // A connection can have only 16 valid keys at a time.
			rand.NewChaCha8([32]byte{byte(i)}).Read(f.memory.Bytes()[:4096])
			want := bytes.Clone(f.memory.Bytes()[:4096])
			require.Equal(t, nvme.Success, do(nvme.IOWrite, uint64(i)))
			clear(f.memory.Bytes()[:4096])
			require.Equal(t, nvme.Success, do(nvme.IORead, uint64(i)))
			require.Equal(t, want, f.memory.Bytes()[:4096])
		}
		f.disk.setHook(func(string, int64) error { return errors.New("broken") })
		require.NotEqual(t, nvme.Success, do(nvme.IORead, 0))
		require.NotEqual(t, nvme.Success, do(nvme.IOWrite, 0))
		require.NoError(t, c.Close(t.Context()))
	})
}

// Data of every size arrives in the disk and comes back, on two queues.
func TestWritesAreReadBack(t *testing.T) {
	paths(t, func(t *testing.T, path soft.Path) {
		f := start(t, path, nil)
		c := f.connect(2)
		random := rand.NewChaCha8([32]byte{1})
		for i, size := range []int{512, 4096, 8192, 64 << 10, 1 << 20} {
			data := f.memory.Bytes()[:size]
			random.Read(data)
			want := bytes.Clone(data)
			blocks, block := size/blockSize, uint64(i*3)
			out := reactor.Piece{Region: f.memory, Length: size}
			back := reactor.Piece{Region: f.memory, Offset: 2 << 20, Length: size}
			require.Equal(t, nvme.Success, f.do(c.IO[0], initiator.Transfer(nvme.IOWrite, 1, block, blocks, out)))
			require.Equal(t, want, f.disk.part(int(block)*blockSize, size))
			require.Equal(t, nvme.Success, f.do(c.IO[1], initiator.Transfer(nvme.IORead, 1, block, blocks, back)))
			require.True(t, bytes.Equal(want, f.memory.Bytes()[2<<20:][:size]))
		}
		require.NoError(t, c.Close(t.Context()))
	})
}

func TestDataInTheCapsule(t *testing.T) {
	f := start(t, soft.PathLocal, nil)
	c := f.connect(1)
	data := bytes.Repeat([]byte("capsule!"), 4096/8)
	r := initiator.Transfer(nvme.IOWrite, 1, 8, len(data)/blockSize, reactor.Piece{})
	r.InCapsule = data
	require.Equal(t, nvme.Success, f.do(c.IO[0], r))
	require.Equal(t, data, f.disk.part(8*blockSize, len(data)))
	require.NoError(t, c.Close(t.Context()))
}

func TestFlushZeroesAndDiscard(t *testing.T) {
	f := start(t, soft.PathLocal, nil)
	c := f.connect(1)
	require.NoError(t, f.disk.WriteAt(bytes.Repeat([]byte{7}, diskSize), 0))
	require.Equal(t, nvme.Success, f.do(c.IO[0], initiator.Transfer(nvme.IOFlush, 1, 0, 1, reactor.Piece{})))
	require.Equal(t, 1, f.disk.flushed())
	require.Equal(t, nvme.Success, f.do(c.IO[0], initiator.Transfer(nvme.IOWriteZeroes, 1, 2, 3, reactor.Piece{})))
	require.Equal(t, make([]byte, 3*blockSize), f.disk.part(2*blockSize, 3*blockSize))
	require.Equal(t, []byte{7}, f.disk.part(5*blockSize, 1))

	ranges := f.memory.Bytes()[:4096]
	binary.LittleEndian.PutUint32(ranges[4:], 2)
	binary.LittleEndian.PutUint64(ranges[8:], 10)
	r := initiator.Transfer(nvme.IODatasetManagement, 1, 0, 1, reactor.Piece{Region: f.memory, Length: 4096})
	clear(r.Command[40:56])
	r.Command[44] = 1 << 2
	require.Equal(t, nvme.Success, f.do(c.IO[0], r))
	require.Equal(t, make([]byte, 2*blockSize), f.disk.part(10*blockSize, 2*blockSize))
	require.NoError(t, c.Close(t.Context()))
}

func TestErrorsOfCommands(t *testing.T) {
	f := start(t, soft.PathLocal, func(c *target.Config) {
		c.Subsystems[0].Namespaces = append(c.Subsystems[0].Namespaces, target.Namespace{
			Disk: &memoryDisk{bytes: make([]byte, diskSize)}, BlockSize: 4096, ReadOnly: true,
		})
	})
	c := f.connect(1)
	data := reactor.Piece{Region: f.memory, Length: blockSize}
	last := uint64(diskSize / blockSize)
	for name, test := range map[string]struct {
		request *initiator.Request
		status  nvme.Status
	}{
		"behind the end":         {initiator.Transfer(nvme.IORead, 1, last, 1, data), nvme.OutOfRange.Final()},
		"block near 2^64":        {initiator.Transfer(nvme.IORead, 1, 1<<64-1, 1, data), nvme.OutOfRange.Final()},
		"wrong length":           {initiator.Transfer(nvme.IORead, 1, 0, 2, data), nvme.DataLengthInvalid.Final()},
		"no such namespace":      {initiator.Transfer(nvme.IORead, 3, 0, 1, data), nvme.InvalidNamespace.Final()},
		"no such opcode":         {initiator.Transfer(0x55, 1, 0, 1, data), nvme.InvalidOpcode.Final()},
		"write protected":        {initiator.Transfer(nvme.IOWrite, 2, 0, 1, reactor.Piece{Region: f.memory, Length: 4096}), nvme.WriteProtected.Final()},
		"zeroes write protected": {initiator.Transfer(nvme.IOWriteZeroes, 2, 0, 1, reactor.Piece{}), nvme.WriteProtected.Final()},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.status, f.do(c.IO[0], test.request)) })
	}
	// After the errors, the queue executes a command.
	require.Equal(t, nvme.Success, f.do(c.IO[0], initiator.Transfer(nvme.IORead, 1, 0, 1, data)))
	require.NoError(t, c.Close(t.Context()))
}

// identify returns a structure of the command Identify, and the status.
func (f *fixture) identify(c *initiator.Controller, cns uint8, namespace uint32) ([]byte, nvme.Status) {
	r := &initiator.Request{Data: reactor.Piece{Region: f.memory, Length: nvme.IdentifySize}}
	r.Command[0], r.Command[nvme.IdentifyCNSAt] = nvme.AdminIdentify, cns
	binary.LittleEndian.PutUint32(r.Command[4:], namespace)
	status := f.do(c.Admin, r)
	return bytes.Clone(f.memory.Bytes()[:nvme.IdentifySize]), status
}

func TestIdentify(t *testing.T) {
	f := start(t, soft.PathLocal, nil)
	c := f.connect(0)
	b, status := f.identify(c, nvme.IdentifyController, 0)
	require.Equal(t, nvme.Success, status)
	require.Equal(t, c.ID, binary.LittleEndian.Uint16(b[78:]))
	require.Equal(t, subsystem, strings.TrimRight(string(b[768:1024]), "\x00"))
	b, status = f.identify(c, nvme.IdentifyActive, 0)
	require.Equal(t, nvme.Success, status)
	require.Equal(t, []byte{1, 0, 0, 0, 0}, b[:5])
	b, status = f.identify(c, nvme.IdentifyNamespace, 1)
	require.Equal(t, nvme.Success, status)
	require.Equal(t, uint64(diskSize/blockSize), binary.LittleEndian.Uint64(b))
	require.Equal(t, byte(9), b[130])
	_, status = f.identify(c, nvme.IdentifyDescriptors, 2)
	require.Equal(t, nvme.InvalidNamespace.Final(), status)
	_, err := c.Log(t.Context(), nvme.LogEffects, 0, nvme.LogEffectsSize)
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
}

func TestDiscovery(t *testing.T) {
	f := start(t, soft.PathLocal, nil)
	c, err := f.host.Connect(t.Context(), f.listener.Addr(), nvme.NQNDiscovery)
	require.NoError(t, err)
	b, err := c.Log(t.Context(), nvme.LogDiscovery, 0, 2048)
	require.NoError(t, err)
	require.Equal(t, uint64(1), binary.LittleEndian.Uint64(b[8:]))
	require.Equal(t, subsystem, strings.TrimRight(string(b[1024+256:1024+512]), "\x00"))
	require.Equal(t, "127.0.0.1", strings.TrimRight(string(b[1024+512:1024+768]), " "))
	require.NoError(t, c.Close(t.Context()))
}

func TestConnectIsRefused(t *testing.T) {
	f := start(t, soft.PathLocal, nil)
	_, err := f.host.Connect(t.Context(), f.listener.Addr(), "nqn.2026-11.example:other")
	require.ErrorIs(t, err, nvme.ConnectParam.Final())
	stranger := f.newHost(soft.PathLocal, "nqn.2026-11.example:stranger", 2)
	_, err = stranger.Connect(t.Context(), f.listener.Addr(), subsystem)
	require.ErrorIs(t, err, nvme.ConnectHostRefused.Final())
}

// Connections leave no memory behind. A queue alone needs more than 50 KB.
func TestManyConnections(t *testing.T) {
	f := start(t, soft.PathLocal, nil)
	memory := func() (stats runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats
	}
	connect := func() {
		c := f.connect(1)
		require.NoError(t, c.Close(t.Context()))
	}
	const connections = 50
	for range connections {
		connect()
	}
	before := memory().HeapAlloc
	for range connections {
		connect()
	}
	require.Less(t, int64(memory().HeapAlloc)-int64(before), int64(1<<20))
}

// A host that reconnects gets no I/O queue before its old writes have ended.
func TestOldWritesEndBeforeANewQueueBegins(t *testing.T) {
	f := start(t, soft.PathLocal, nil)
	started, proceed := make(chan struct{}), make(chan struct{})
	var first sync.Once
	f.disk.setHook(func(operation string, _ int64) error {
		if operation == "write" {
			first.Do(func() { close(started) })
			<-proceed
		}
		return nil
	})
	old := f.connect(1)
	data := reactor.Piece{Region: f.memory, Length: blockSize}
	old.IO[0].Post(func() {
		r := initiator.Transfer(nvme.IOWrite, 1, 0, 1, data)
		r.Done = func(*nvme.Response, error) {}
		old.IO[0].Submit(r)
	})
	<-started

	fresh, err := f.host.Connect(t.Context(), f.listener.Addr(), subsystem)
	require.NoError(t, err)
	opened := make(chan error, 1)
	go func() { opened <- fresh.OpenQueues(t.Context(), 1, 32) }()
	// The admin queue answers, while the Connect command of the I/O queue waits.
	for range 10 {
		_, err = fresh.Property(t.Context(), nvme.PropertyCSTS, 4)
		require.NoError(t, err)
	}
	require.Empty(t, opened)
	close(proceed)
	require.NoError(t, <-opened)
	require.NoError(t, fresh.Close(t.Context()))
	require.NoError(t, old.Close(t.Context()))
}
