//go:build linux

package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/initiator"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// An nvmeNode is a device and an NVMe host with memory for its data.
type nvmeNode struct {
	device *soft.Provider
	host   *initiator.Host
	memory *reactor.Region
}

// open opens the device and the host with n bytes of memory.
func (h *nvmeNode) open(s *Spec, n int) (err error) {
	if h.device, err = soft.Open(&soft.Config{Path: s.Path}); err != nil {
		return err
	}
	cfg := &initiator.Config{
		NQN: "nqn.2026-11.example:host", From: s.From,
		Reactor: reactor.Config{MaxInFlight: 256, MaxMessage: nvme.CommandSize + 4096, Transport: reactor.Transport{AckTimeout: s.AckTimeout}},
	}
	binary.LittleEndian.PutUint64(cfg.ID[:], s.Seed+1)
	if h.host, err = initiator.NewHost(h.device, cfg); err == nil {
		h.memory, err = h.host.Alloc(n)
	}
	return err
}

// connect connects a controller with n I/O queues of 32 places.
func (h *nvmeNode) connect(ctx context.Context, s *Spec, n int) (*initiator.Controller, error) {
	c, err := h.host.Connect(ctx, s.Addr, nvmeSubsystem)
	if err == nil && n > 0 {
		err = c.OpenQueues(ctx, n, 32)
	}
	return c, err
}

func (h *nvmeNode) close() error { return errors.Join(h.host.Close(), h.device.Close()) }

// An nvmeHost is a correct host. It writes blocks of the first half of the disk and reads
// them back. Tally.Echoes counts the blocks that were read correctly.
type nvmeHost struct {
	nvmeNode
	spec       Spec
	controller *initiator.Controller
	ctx        context.Context
	stop       context.CancelFunc
	flow       sync.WaitGroup

	mu    sync.Mutex
	tally Tally
}

// nvmeTransfer is the length in bytes of the transfers of a correct host.
const nvmeTransfer = 8192

func (h *nvmeHost) start(s *Spec) (note Note, err error) {
	h.spec = *s
	h.ctx, h.stop = context.WithCancel(context.Background())
	if err := h.open(s, 2*nvmeTransfer); err != nil {
		return note, err
	}
	ctx, cancel := context.WithTimeout(h.ctx, echoLimit)
	defer cancel()
	if h.controller, err = h.connect(ctx, s, 1); err != nil {
		return note, err
	}
	h.tally.Opened = 2 // the admin queue and the I/O queue
	h.flow.Go(h.exchange)
	return note, nil
}

// count changes the counters under the lock.
func (h *nvmeHost) count(change func(t *Tally)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.tally)
}

// exchange writes and reads until the host ends.
func (h *nvmeHost) exchange() {
	const blocks = nvmeTransfer / nvmeBlock
	out, back := h.memory.Bytes()[:nvmeTransfer], h.memory.Bytes()[nvmeTransfer:2*nvmeTransfer]
	for n := uint64(0); h.ctx.Err() == nil; n++ {
		message(out[:maxMessage], h.spec.Seed, n)
		first := n % (nvmeDisk / 2 / nvmeBlock / blocks) * blocks
		began := time.Now()
		for i, opcode := range []uint8{nvme.IOWrite, nvme.IORead} {
			data := reactor.Piece{Region: h.memory, Offset: i * nvmeTransfer, Length: nvmeTransfer}
			// A request that has begun is completed, also when the host ends.
			if _, err := h.controller.IO[0].Do(context.Background(), initiator.Transfer(opcode, 1, first, blocks, data)); err != nil {
				h.count(func(t *Tally) { t.Failed++; t.Lost++; t.Cause = err.Error() })
				return
			}
		}
		h.count(func(t *Tally) {
			if !bytes.Equal(out, back) {
				t.Damaged++
			}
			t.Echoes++
			t.took(time.Since(began))
		})
		select {
		case <-h.ctx.Done():
		case <-time.After(h.spec.Pause):
		}
	}
}

func (h *nvmeHost) report() (note Note) {
	h.count(func(t *Tally) { note.Tally = *t })
	return note
}

func (h *nvmeHost) await() {}

func (h *nvmeHost) finish() (Note, error) {
	h.stop()
	h.flow.Wait()
	note := h.report()
	ctx, cancel := context.WithTimeout(context.Background(), echoLimit)
	defer cancel()
	return note, errors.Join(h.controller.Close(ctx), h.close())
}
