package target

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
)

const planDiskSize = 1 << 20

// A boundedDisk checks that all accesses are inside the disk.
type boundedDisk struct{ *testing.T }

func (d boundedDisk) check(offset, n int64) error {
	require.True(d, offset >= 0 && n >= 0 && offset <= planDiskSize && n <= planDiskSize-offset, "%d bytes at %d", n, offset)
	return nil
}

func (d boundedDisk) Size() int64                          { return planDiskSize }
func (d boundedDisk) ReadOnly() bool                       { return false }
func (d boundedDisk) ReadAt(b []byte, offset int64) error  { return d.check(offset, int64(len(b))) }
func (d boundedDisk) WriteAt(b []byte, offset int64) error { return d.check(offset, int64(len(b))) }
func (d boundedDisk) Flush() error                         { return nil }
func (d boundedDisk) Zero(offset, n int64) error           { return d.check(offset, n) }
func (d boundedDisk) Discard(offset, n int64) error        { return d.check(offset, n) }

// plan accepts a command only if its data has a valid length, and executing the command
// stays inside the disk.
func FuzzPlan(f *testing.F) {
	for _, opcode := range []uint8{0, 1, 2, 6, 8, 9, 10, 12, 0x18, nvme.Fabrics} {
		cmd := make([]byte, nvme.CommandSize)
		cmd[0], cmd[1], cmd[4] = opcode, 0x40, 1
		nvme.Command(cmd).SGL().SetInCapsule(0, 4096)
		f.Add(cmd, uint16(opcode&1), []byte{0, 0, 0, 0, 1})
		binary.LittleEndian.PutUint64(cmd[40:], 1<<64-1)
		f.Add(cmd, uint16(opcode&1), []byte{})
	}
	f.Fuzz(func(t *testing.T, cmd []byte, id uint16, data []byte) {
		q := planQueue(t, id)
		c := &q.commands[0]
		copy(c.bytes[:], cmd)
		n, status := q.plan(c)
		if status != nvme.Success {
			return
		}
		require.True(t, n >= 0 && n <= maxData, "%d bytes", n)
		require.Equal(t, c.dir != noData, n > 0)
		c.data = make([]byte, n)
		if c.dir == fromHost {
			copy(c.data, data)
		}
		c.work(c)
	})
}

// planQueue returns the queue of a ready controller that has no connection.
func planQueue(t *testing.T, id uint16) *queue {
	sub := &Subsystem{NQN: "nqn.a", Namespaces: []Namespace{{Disk: boundedDisk{t}, BlockSize: 512}}}
	require.NoError(t, sub.prepare())
	target := &Target{cfg: Config{Queues: 1}}
	q := newQueue(target, id, adminSize)
	q.controller = &controller{target: target, admin: q, subsystem: sub, keepAlive: 1, writes: newWriteOrder()}
	q.controller.ready.Store(true)
	return q
}
