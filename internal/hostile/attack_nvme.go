//go:build linux

package hostile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/initiator"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// nvmeLargest is the length in bytes of the largest transfer of a command.
const nvmeLargest = 1 << 20

// transferForever has as many of the largest commands in flight as its queues have
// places, and half of them are writes. It expects to be killed or stopped meanwhile.
// Attack.Sent counts the commands, and Attack.Received the responses.
func transferForever(a *attacker) error {
	h := &nvmeNode{}
	if err := h.open(&a.spec, nvmeLargest); err != nil {
		return err
	}
	c, err := h.connect(a.ctx, &a.spec, max(a.spec.Conns, 1))
	if err != nil {
		return err
	}
	for _, q := range c.IO {
		err := q.Post(func() {
			for i := range 32 {
				a.transferAgain(q, h.memory, i%2 == 0)
			}
		})
		if err != nil {
			return err
		}
	}
	a.waitForStop()
	return h.close()
}

// transferAgain submits a command, and again when its response has come.
func (a *attacker) transferAgain(q *initiator.Queue, memory *reactor.Region, write bool) {
	opcode := uint8(nvme.IORead)
	if write {
		opcode = nvme.IOWrite
	}
	const half = nvmeDisk / 2 / nvmeBlock
	r := initiator.Transfer(opcode, 1, half, nvmeLargest/nvmeBlock, reactor.Piece{Region: memory, Length: nvmeLargest})
	r.Done = func(_ *nvme.Response, err error) {
		if err == nil {
			a.count(func(c *Attack) { c.Received++ })
			a.transferAgain(q, memory, write)
		}
	}
	a.count(func(c *Attack) { c.Sent++ })
	q.Submit(r)
}

// An nvmeViolation is what a hostile host does on one controller. It returns the queue
// whose connection must end. If the result is nil, the target must answer with errors.
type nvmeViolation struct {
	name string
	run  nvmeRun
}

// nvmeCommand returns a command for 8 blocks of the second half of the disk, with a
// descriptor of memory of the host.
func nvmeCommand(opcode, kind uint8, addr uint64, length, key uint32) *initiator.Request {
	r := initiator.Transfer(opcode, 1, nvmeDisk/2/nvmeBlock, 8, reactor.Piece{})
	r.Raw = true
	cmd := nvme.Command(r.Command[:])
	cmd.SetFlags()
	cmd.SGL().SetKeyed(kind, addr, length, key)
	return r
}

var errAnswered = errors.New("the target has accepted a wrong command")

// An nvmeRun is the field run of an nvmeViolation.
type nvmeRun func(context.Context, *nvmeNode, *Spec, *initiator.Controller) (*initiator.Queue, error)

// nvmeEnds sends commands that must end the connection of the I/O queue. The function
// requests gets the memory of the host.
func nvmeEnds(requests func(at reactor.Remote) []*initiator.Request) nvmeRun {
	return func(_ context.Context, h *nvmeNode, _ *Spec, c *initiator.Controller) (*initiator.Queue, error) {
		q := c.IO[0]
		return q, q.Post(func() { h.submit(q, requests) })
	}
}

// nvmeRefused sends a command to which the target must answer with an error.
func nvmeRefused(r *initiator.Request) nvmeRun {
	return func(ctx context.Context, _ *nvmeNode, _ *Spec, c *initiator.Controller) (*initiator.Queue, error) {
		_, err := c.IO[0].Do(ctx, r)
		if errors.As(err, new(nvme.Status)) {
			return nil, nil
		}
		return nil, errors.Join(errAnswered, err)
	}
}

// nvmeLength is the number of bytes of the commands of nvmeCommand.
const nvmeLength = 8 * nvmeBlock

// nvmeViolations returns the violations of RoleHostileHost, which uses them in turn.
func nvmeViolations() []nvmeViolation {
	writes := func(n int, then ...*initiator.Request) nvmeRun {
		return nvmeEnds(func(at reactor.Remote) (all []*initiator.Request) {
			for range n {
				all = append(all, nvmeCommand(nvme.IOWrite, nvme.SGLKeyed, at.Addr, nvmeLength, at.RKey))
			}
			return append(all, then...)
		})
	}
	return append(append(wrongDescriptors("write", nvme.IOWrite), wrongDescriptors("read", nvme.IORead)...),
		nvmeViolation{"more commands than places", writes(200)},
		nvmeViolation{"memory that ends", writes(32, nil)},
		nvmeViolation{"queue connected twice", connectQueueTwice},
	)
}

// wrongDescriptors returns violations by the descriptor of a command.
func wrongDescriptors(name string, opcode uint8) []nvmeViolation {
	one := func(kind uint8, change func(at *reactor.Remote)) nvmeRun {
		return nvmeEnds(func(at reactor.Remote) []*initiator.Request {
			change(&at)
			return []*initiator.Request{nvmeCommand(opcode, kind, at.Addr, nvmeLength, at.RKey)}
		})
	}
	someWrong := func(at reactor.Remote) (all []*initiator.Request) {
		for i := range 32 {
			key := at.RKey
			if i%4 == 3 {
				key ^= 1 << 20
			}
			all = append(all, nvmeCommand(opcode, nvme.SGLKeyed, at.Addr, nvmeLength, key))
		}
		return all
	}
	return []nvmeViolation{
		{name + ", wrong key", one(nvme.SGLKeyed, func(at *reactor.Remote) { at.RKey ^= 1 << 20 })},
		{name + ", behind the memory", one(nvme.SGLKeyed, func(at *reactor.Remote) { at.Addr += nvmeLargest - nvmeLength + 1 })},
		{name + ", address that wraps", one(nvme.SGLKeyed, func(at *reactor.Remote) { at.Addr = 1<<64 - 1 })},
		{name + ", key to invalidate is wrong", one(nvme.SGLKeyedInvalidate, func(*reactor.Remote) {})},
		{name + ", wrong key for some of many", nvmeEnds(someWrong)},
		{name + ", longer than the blocks", nvmeRefused(nvmeCommand(opcode, nvme.SGLKeyed, 0, 1<<24-1, 1))},
		{name + ", shorter than the blocks", nvmeRefused(nvmeCommand(opcode, nvme.SGLKeyed, 0, 1, 1))},
		{name + ", descriptor of an unknown kind", nvmeRefused(nvmeCommand(opcode, 0xFF, 0, nvmeLength, 1))},
	}
}

// submit sends commands as they are, beyond the size of the queue too. A nil command
// closes the memory of the host.
func (h *nvmeNode) submit(q *initiator.Queue, requests func(at reactor.Remote) []*initiator.Request) {
	at, err := q.Remote(h.memory, nvmeLargest)
	if err != nil {
		return // The connection has ended.
	}
	for i, r := range requests(at) {
		if r == nil {
			h.memory.CloseFunc(nil)
			continue
		}
		nvme.Command(r.Command[:]).SetID(uint16(i))
		_ = q.SendRaw(r.Command[:])
	}
}

// connectQueueTwice connects an I/O queue that the controller has already.
func connectQueueTwice(ctx context.Context, h *nvmeNode, s *Spec, c *initiator.Controller) (*initiator.Queue, error) {
	q, err := h.host.Dial(ctx, s.Addr, 1, 32)
	if err != nil {
		return nil, err
	}
	d := nvme.ConnectData{Controller: c.ID, Subsystem: nvmeSubsystem, Host: "nqn.2026-11.example:host"}
	binary.LittleEndian.PutUint64(d.HostID[:], s.Seed+1)
	b, err := d.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	copy(h.memory.Bytes(), b)
	r := &initiator.Request{Data: reactor.Piece{Region: h.memory, Length: len(b)}}
	r.Command[0], r.Command[4] = nvme.Fabrics, nvme.FabricsConnect
	binary.LittleEndian.PutUint16(r.Command[nvme.ConnectQIDAt:], 1)
	binary.LittleEndian.PutUint16(r.Command[nvme.ConnectQueueSizeAt:], 31)
	if _, err = q.Do(ctx, r); errors.Is(err, nvme.SequenceError.Final()) {
		return nil, q.Close(ctx)
	}
	return nil, errors.Join(errAnswered, err)
}

// violateNVMe connects a controller in each round and violates the protocol.
// Attack.Refused counts the connections that the target has ended, and Attack.Admitted
// the commands that it has answered with an error.
func violateNVMe(a *attacker) error {
	list, round := nvmeViolations(), 0
	return a.eachRound(func() error {
		v := &list[round%len(list)]
		round++
		ctx, cancel := context.WithTimeout(a.ctx, endLimit)
		defer cancel()
		err := a.violateNVMeOnce(ctx, v)
		if a.ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		return nil
	})
}

func (a *attacker) violateNVMeOnce(ctx context.Context, v *nvmeViolation) error {
	h := &nvmeNode{}
	if err := h.open(&a.spec, nvmeLargest); err != nil {
		return err
	}
	defer func() { _ = h.close() }()
	c, err := h.connect(ctx, &a.spec, 1)
	if err != nil {
		return err
	}
	q, err := v.run(ctx, h, &a.spec, c)
	if err != nil || q == nil {
		a.count(func(n *Attack) { n.Sent++; n.Admitted++ })
		return err
	}
	select {
	case <-q.Ended():
		a.count(func(n *Attack) { n.Sent++; n.Refused++ })
		return nil
	case <-time.After(endLimit):
	case <-ctx.Done():
	}
	return errors.New("the target does not end the connection")
}
