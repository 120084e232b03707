package target_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/initiator"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A hostile is a host that sends wrong commands, while another host of the same target
// writes and reads the first half of the disk.
type hostile struct {
	*testing.T
	addr    netip.AddrPort // address of the target
	disk    *memoryDisk    // disk of the target, or nil if another process has the target
	host    *initiator.Host
	memory  *reactor.Region
	foreign uint16 // controller of the other host
}

// attacks has one function for each kind of wrong behavior.
var attacks = map[string]func(*hostile){
	"short capsules":      (*hostile).sendShortCapsules,
	"commands first":      (*hostile).sendCommandsFirst,
	"two connects":        (*hostile).connectTwice,
	"wrong connects":      (*hostile).sendWrongConnects,
	"wrong descriptors":   (*hostile).sendWrongDescriptors,
	"wrong capsules":      (*hostile).sendWrongCapsules,
	"blocks out of range": (*hostile).sendWrongBlocks,
	"bad keys":            (*hostile).sendBadKeys,
	"too many commands":   (*hostile).sendTooMany,
	"garbage in requests": (*hostile).dialWithGarbage,
	"random commands":     (*hostile).sendRandom,
}

// Each attack ends with an error status or the end of the attacker's connection, and the
// other host notices nothing.
func TestHostileHost(t *testing.T) {
	paths(t, func(t *testing.T, path soft.Path) {
		f := start(t, path, nil)
		stop, verified := make(chan struct{}), make(chan int, 1)
		victim := f.connect(1)
		go func() { verified <- f.writeAndVerify(victim.IO[0], stop) }()
		attackAll(t, &hostile{
			addr: f.listener.Addr(), disk: f.disk, host: f.newHost(path, hostNQN, 2), foreign: victim.ID,
		})
		close(stop)
		require.NotZero(t, <-verified)
		require.NoError(t, victim.Close(t.Context()))
	})
}

// attackAll attacks in every way.
func attackAll(t *testing.T, h *hostile) {
	var err error
	h.memory, err = h.host.Alloc(1 << 20)
	require.NoError(t, err)
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			h.T = t
			attack(h)
		})
	}
}

// writeAndVerify writes random blocks and reads them back, until stop is closed. It
// returns how often it did that.
func (f *fixture) writeAndVerify(q *initiator.Queue, stop chan struct{}) (times int) {
	const size = 8192
	random := rand.New(rand.NewChaCha8([32]byte{2}))
	out := reactor.Piece{Region: f.memory, Length: size}
	back := reactor.Piece{Region: f.memory, Offset: size, Length: size}
	for ; ; times++ {
		select {
		case <-stop:
			return times
		default:
		}
		binary.LittleEndian.PutUint64(f.memory.Bytes()[random.IntN(size-8):], random.Uint64())
		block := random.Uint64N(diskSize/2/blockSize - size/blockSize)
		for _, r := range []*initiator.Request{
			initiator.Transfer(nvme.IOWrite, 1, block, size/blockSize, out),
			initiator.Transfer(nvme.IORead, 1, block, size/blockSize, back),
		} {
			if _, err := q.Do(f.Context(), r); err != nil {
				f.Errorf("the other host got: %v", err)
				return 0
			}
		}
		if !bytes.Equal(f.memory.Bytes()[:size], f.memory.Bytes()[size:2*size]) {
			f.Error("the data has changed")
		}
	}
}

// rounds returns how often an attack repeats something: n times, or fewer times against a
// target in another process, which runs on an emulated processor.
func (h *hostile) rounds(n int) int {
	if h.disk == nil {
		return n / 8
	}
	return n
}

// connectHostile connects a controller with one I/O queue of the attacker.
func (h *hostile) connectHostile() *initiator.Controller {
	c, err := h.host.Connect(h.T.Context(), h.addr, subsystem)
	require.NoError(h.T, err)
	require.NoError(h.T, c.OpenQueues(h.T.Context(), 1, 32))
	return c
}

// dial opens the connection of a queue without a Connect command.
func (h *hostile) dial(id uint16) *initiator.Queue {
	q, err := h.host.Dial(h.T.Context(), h.addr, id, 32)
	require.NoError(h.T, err)
	return q
}

// status sends a request that must be answered, and returns the answer.
func (h *hostile) status(q *initiator.Queue, r *initiator.Request) nvme.Status {
	resp, err := q.Do(h.T.Context(), r)
	if status := nvme.Status(0); errors.As(err, &status) {
		return status
	}
	require.NoError(h.T, err)
	return resp.Status
}

// statuses sends requests that must be answered, all at once, and returns the answers.
func (h *hostile) statuses(q *initiator.Queue, requests []*initiator.Request) []nvme.Status {
	all := make([]nvme.Status, len(requests))
	answered := make(chan error, len(requests))
	require.NoError(h.T, q.Post(func() {
		for i, r := range requests {
			r.Done = func(resp *nvme.Response, err error) {
				if err == nil {
					all[i] = resp.Status
				}
				answered <- err
			}
			q.Submit(r)
		}
	}))
	for range requests {
		require.NoError(h.T, <-answered)
	}
	return all
}

// alive checks that the queue still executes commands.
func (h *hostile) alive(q *initiator.Queue) {
	data := reactor.Piece{Region: h.memory, Length: blockSize}
	require.Equal(h.T, nvme.Success, h.status(q, initiator.Transfer(nvme.IORead, 1, 0, 1, data)))
}

// raw returns a request that is sent as it is, except for its identifier.
func raw(opcode uint8) *initiator.Request {
	r := &initiator.Request{Raw: true}
	nvme.Command(r.Command[:]).SetFlags()
	r.Command[0], r.Command[4] = opcode, 1
	return r
}

func sglOf(r *initiator.Request) nvme.SGL { return nvme.Command(r.Command[:]).SGL() }

func (h *hostile) sendShortCapsules() {
	for _, n := range []int{1, 63} {
		for _, q := range []*initiator.Queue{h.dial(0), h.dial(1), h.connectHostile().IO[0]} {
			require.NoError(h.T, q.Post(func() { _ = q.SendRaw(make([]byte, n)) }))
			<-q.Ended()
		}
	}
}

func (h *hostile) sendCommandsFirst() {
	for _, id := range []uint16{0, 1} {
		q := h.dial(id)
		var requests []*initiator.Request
		for opcode := range 256 {
			r := raw(uint8(opcode))
			r.Command[4] = nvme.FabricsPropertyGet
			requests = append(requests, r)
		}
		for opcode, status := range h.statuses(q, requests) {
			require.Equal(h.T, nvme.InvalidOpcode.Final(), status, opcode)
		}
	}
}

// connectRequest returns a Connect command whose data is in the attacker's memory.
func (h *hostile) connectRequest(id, controller uint16) *initiator.Request {
	d := nvme.ConnectData{HostID: [16]byte{2}, Controller: controller, Subsystem: subsystem, Host: hostNQN}
	b, err := d.AppendBinary(nil)
	require.NoError(h.T, err)
	copy(h.memory.Bytes(), b)
	r := &initiator.Request{Data: reactor.Piece{Region: h.memory, Length: len(b)}}
	r.Command[0], r.Command[4] = nvme.Fabrics, nvme.FabricsConnect
	binary.LittleEndian.PutUint16(r.Command[nvme.ConnectQIDAt:], id)
	binary.LittleEndian.PutUint16(r.Command[nvme.ConnectQueueSizeAt:], 31)
	return r
}

// Two Connect commands in flight make only one controller.
func (h *hostile) connectTwice() {
	q := h.dial(0)
	statuses := make(chan nvme.Status, 2)
	first, second := h.connectRequest(0, nvme.AnyController), h.connectRequest(0, nvme.AnyController)
	require.NoError(h.T, q.Post(func() {
		for _, r := range []*initiator.Request{first, second} {
			r.Done = func(resp *nvme.Response, err error) {
				if err == nil {
					statuses <- resp.Status
				}
			}
			q.Submit(r)
		}
	}))
	require.ElementsMatch(h.T, []nvme.Status{nvme.Success, nvme.SequenceError.Final()},
		[]nvme.Status{<-statuses, <-statuses})
	require.Equal(h.T, nvme.SequenceError.Final(), h.status(q, h.connectRequest(0, nvme.AnyController)))
}

func (h *hostile) sendWrongConnects() {
	admin, io := h.dial(0), h.dial(1)
	for name, test := range map[string]struct {
		queue  *initiator.Queue
		change func(r *initiator.Request, data []byte)
		status nvme.Status
	}{
		"format":       {admin, func(r *initiator.Request, _ []byte) { r.Command[nvme.ConnectFormatAt] = 1 }, nvme.ConnectFormat},
		"queue":        {admin, func(r *initiator.Request, _ []byte) { r.Command[nvme.ConnectQIDAt] = 1 }, nvme.ConnectParam},
		"queue size 1": {admin, func(r *initiator.Request, _ []byte) { r.Command[nvme.ConnectQueueSizeAt] = 0 }, nvme.ConnectParam},
		"queue size":   {admin, func(r *initiator.Request, _ []byte) { r.Command[nvme.ConnectQueueSizeAt+1] = 9 }, nvme.ConnectParam},
		"controller":   {admin, func(_ *initiator.Request, data []byte) { data[nvme.ConnectDataControllerAt] = 1 }, nvme.ConnectParam},
		"foreign controller": {io, func(_ *initiator.Request, data []byte) {
			binary.LittleEndian.PutUint16(data[nvme.ConnectDataControllerAt:], h.foreign)
		}, nvme.ConnectParam},
		"no such controller": {io, func(*initiator.Request, []byte) {}, nvme.ConnectParam},
		"endless names":      {admin, func(_ *initiator.Request, data []byte) { fill(data[256:], 'n') }, nvme.ConnectParam},
		"no names":           {admin, func(_ *initiator.Request, data []byte) { clear(data[256:]) }, nvme.ConnectParam},
		"length":             {admin, func(r *initiator.Request, _ []byte) { r.Data.Length-- }, nvme.DataLengthInvalid},
	} {
		r := h.connectRequest(test.queue.ID(), nvme.AnyController)
		test.change(r, h.memory.Bytes())
		require.Equal(h.T, test.status.Final(), h.status(test.queue, r), name)
	}
}

func fill(b []byte, with byte) {
	for i := range b {
		b[i] = with
	}
}

// sendWrongDescriptors sends descriptors of all kinds with wrong lengths. The target must
// refuse each of them without a READ or WRITE.
func (h *hostile) sendWrongDescriptors() {
	q := h.connectHostile().IO[0]
	kinds := h.rounds(256)
	for i := range kinds {
		kind := i * (256 / kinds)
		var requests []*initiator.Request
		for _, length := range []uint32{0, 1, blockSize - 1, blockSize + 1, 1 << 20, 1<<24 - 1, 1<<32 - 1} {
			for _, opcode := range []uint8{nvme.IORead, nvme.IOWrite} {
				r := raw(opcode)
				binary.LittleEndian.PutUint32(sglOf(r)[8:], length)
				sglOf(r)[15] = uint8(kind)
				requests = append(requests, r)
			}
		}
		for i, status := range h.statuses(q, requests) {
			require.NotEqual(h.T, nvme.Success, status, "kind %#x, %x", kind, requests[i].Command)
		}
	}
	h.alive(q)
}

// sendWrongCapsules sends commands whose data is not completely in their capsules.
func (h *hostile) sendWrongCapsules() {
	q := h.connectHostile().IO[0]
	for _, test := range []struct {
		offset uint64
		sent   int
		status nvme.Status
	}{
		{0, 0, nvme.InvalidSGLOffset},
		{0, blockSize - 1, nvme.InvalidSGLOffset},
		{1, blockSize, nvme.InvalidSGLOffset},
		{4096, blockSize, nvme.InvalidSGLOffset},
		{1 << 63, blockSize, nvme.InvalidSGLOffset},
		{1<<64 - 1, blockSize, nvme.InvalidSGLOffset},
		{1<<64 - blockSize, 2 * blockSize, nvme.InvalidSGLOffset},
	} {
		r := raw(nvme.IOWrite)
		r.InCapsule = make([]byte, test.sent)
		sglOf(r).SetInCapsule(test.offset, blockSize)
		require.Equal(h.T, test.status.Final(), h.status(q, r), "offset %d", test.offset)
	}
	r := raw(nvme.IORead)
	r.InCapsule = make([]byte, blockSize)
	sglOf(r).SetInCapsule(0, blockSize)
	require.Equal(h.T, nvme.InvalidField.Final(), h.status(q, r))
	h.alive(q)
}

func (h *hostile) sendWrongBlocks() {
	q := h.connectHostile().IO[0]
	const blocks = diskSize / blockSize
	for _, first := range []uint64{blocks, 1 << 32, 1<<52 + 1, 1 << 55, 1 << 63, 1<<64 - 65536, 1<<64 - 1} {
		for _, count := range []uint16{0, 1, 1<<16 - 1} {
			for _, opcode := range []uint8{nvme.IORead, nvme.IOWrite, nvme.IOWriteZeroes} {
				r := raw(opcode)
				binary.LittleEndian.PutUint64(r.Command[40:], first)
				binary.LittleEndian.PutUint16(r.Command[48:], count)
				sglOf(r).SetKeyed(nvme.SGLKeyed, 0, uint32(count)+1, 0)
				require.Equal(h.T, nvme.OutOfRange.Final(), h.status(q, r), "%d blocks at %d", count, first)
			}
			r := raw(nvme.IODatasetManagement)
			r.Command[44] = 1 << 2
			r.InCapsule = make([]byte, 16)
			binary.LittleEndian.PutUint32(r.InCapsule[4:], uint32(count)+1)
			binary.LittleEndian.PutUint64(r.InCapsule[8:], first)
			sglOf(r).SetInCapsule(0, 16)
			require.Equal(h.T, nvme.OutOfRange.Final(), h.status(q, r), "%d blocks at %d", count, first)
		}
	}
	h.alive(q)
}

// sendBadKeys sends commands with wrong keys and addresses. Each must end the connection.
func (h *hostile) sendBadKeys() {
	for _, opcode := range []uint8{nvme.IORead, nvme.IOWrite} {
		for _, addr := range []uint64{0, 1 << 63, 1<<64 - 1} {
			q := h.connectHostile().IO[0]
			r := raw(opcode)
			sglOf(r).SetKeyed(nvme.SGLKeyed, addr, blockSize, 0xDEADBEEF)
			r.Done = func(*nvme.Response, error) {}
			require.NoError(h.T, q.Post(func() { q.Submit(r) }))
			<-q.Ended()
		}
	}
}

// sendTooMany sends more commands than the queue has places, while the disk answers none.
// The connection must end.
func (h *hostile) sendTooMany() {
	if h.disk == nil {
		return // A disk in another process answers at once.
	}
	c := h.connectHostile()
	proceed := make(chan struct{})
	h.disk.setHook(func(_ string, offset int64) error {
		if offset >= diskSize/2 {
			<-proceed
		}
		return nil
	})
	q := c.IO[0]
	require.NoError(h.T, q.Post(func() {
		r := raw(nvme.IOWrite)
		binary.LittleEndian.PutUint64(r.Command[40:], diskSize/2/blockSize)
		sglOf(r).SetInCapsule(0, blockSize)
		for range 33 {
			_ = q.SendRaw(append(r.Command[:64:64], make([]byte, blockSize)...))
		}
	}))
	<-q.Ended()
	h.disk.setHook(nil)
	close(proceed)
}

// dialWithGarbage sends connection requests with random private data. The target must
// accept or refuse each of them.
func (h *hostile) dialWithGarbage() {
	random := rand.NewChaCha8([32]byte{3})
	for _, n := range []int{0, 1, 31, 32, 32, 32, 48, 56} {
		private := make([]byte, n)
		random.Read(private)
		_, err := h.host.DialPrivate(h.T.Context(), h.addr, 0, 32, private)
		require.Error(h.T, err)
	}
	for _, r := range []nvme.QueueRequest{{SendSizeM1: 32}, {SendSizeM1: 0xFFFF}, {QID: 1, SendSizeM1: 128}, {QID: 9}, {Format: 1, SendSizeM1: 31}} {
		private, _ := r.AppendBinary(nil)
		_, err := h.host.DialPrivate(h.T.Context(), h.addr, r.QID, 32, private)
		require.Error(h.T, err, "%+v", r)
	}
}

// Random commands are answered, or end the connection.
func (h *hostile) sendRandom() {
	commands := h.rounds(3000)
	if testing.Short() && h.disk != nil {
		commands = 500
	}
	random := rand.New(rand.NewChaCha8([32]byte{4}))
	c := h.connectHostile()
	answered := 0
	for range commands {
		queues := []*initiator.Queue{c.Admin, c.IO[0]}
		q := queues[random.IntN(2)]
		if _, err := q.Do(h.T.Context(), randomRequest(random)); err == nil || errors.As(err, new(nvme.Status)) {
			answered++
			continue
		}
		<-q.Ended()
		c = h.connectHostile()
	}
	require.Greater(h.T, answered, commands/4)
}

// randomRequest returns a request with random fields, most of them with the right flags
// and an existing opcode.
func randomRequest(random *rand.Rand) *initiator.Request {
	r := &initiator.Request{Raw: true}
	for i := range r.Command {
		r.Command[i] = uint8(random.Uint32())
	}
	opcodes := []uint8{0, 1, 2, 6, 8, 9, 10, 0x18, nvme.Fabrics, r.Command[0]}
	r.Command[0] = opcodes[random.IntN(len(opcodes))]
	if random.IntN(8) > 0 {
		nvme.Command(r.Command[:]).SetFlags()
		binary.LittleEndian.PutUint32(r.Command[4:], random.Uint32N(3))
	}
	if random.IntN(2) > 0 {
		sglOf(r).SetInCapsule(random.Uint64N(2), blockSize)
		r.InCapsule = make([]byte, blockSize*random.IntN(3))
	}
	return r
}
