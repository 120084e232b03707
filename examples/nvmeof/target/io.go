package target

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
)

// rangeSize is the length in bytes of a range of the command Dataset Management.
const rangeSize = 16

// maxRanges is the largest number of ranges of that command.
const maxRanges = 256

// planIO decodes a command of an I/O queue. See plan.
func (q *queue) planIO(c *command) (n int, status nvme.Status) {
	sub, cmd := q.controller.subsystem, c.sqe()
	c.usesDisk = true
	if cmd.Opcode() == nvme.IOFlush && cmd.Namespace() == allNamespaces {
		c.work = q.flushAll
		return 0, nvme.Success
	}
	ns := sub.namespace(cmd.Namespace())
	if ns == nil {
		return 0, nvme.InvalidNamespace.Final()
	}
	c.namespace = ns
	switch cmd.Opcode() {
	case nvme.IOFlush:
		c.work = flush
		return 0, nvme.Success
	case nvme.IORead:
		c.dir, c.work = toHost, read
		return c.transfer()
	case nvme.IOWrite:
		c.dir, c.work, c.changesDisk = fromHost, write, true
		return c.transfer()
	case nvme.IOWriteZeroes:
		c.work, c.changesDisk = writeZeroes, true
		_, status := c.blocks()
		return 0, c.writable(status)
	case nvme.IODatasetManagement:
		return c.planRanges()
	}
	return 0, nvme.InvalidOpcode.Final()
}

// An extent is a part of a disk in bytes.
type extent struct{ offset, length int64 }

// blocks returns the part of the disk that a Read, Write or Write Zeroes command names.
// It can not overflow: the size of a disk in bytes is below 2^63.
func (c *command) blocks() (extent, nvme.Status) {
	cmd, size := c.sqe(), int64(c.namespace.BlockSize)
	first, count := cmd.Uint64(40), uint64(cmd.Uint16(48))+1
	all := uint64(c.namespace.Disk.Size() / size)
	if first >= all || count > all-first {
		return extent{}, nvme.OutOfRange.Final()
	}
	return extent{int64(first) * size, int64(count) * size}, nvme.Success
}

// writable returns the status, or WriteProtected if the namespace can not be changed.
func (c *command) writable(status nvme.Status) nvme.Status {
	if c.namespace.ReadOnly {
		return nvme.WriteProtected.Final()
	}
	return status
}

// transfer returns the length of the data of a Read or Write command.
func (c *command) transfer() (n int, status nvme.Status) {
	e, status := c.blocks()
	if c.dir == fromHost {
		status = c.writable(status)
	}
	if status == nvme.Success && e.length > maxData {
		status = nvme.InvalidField.Final()
	}
	return int(e.length), status
}

// planRanges decodes the command Dataset Management. The data may be longer than the
// ranges, because Linux always sends 4096 bytes. So planRanges takes the length of the
// data from the descriptor.
func (c *command) planRanges() (n int, status nvme.Status) {
	count := int(c.sqe().Uint8(40)) + 1
	n = int(c.sqe().SGL().Len())
	if n < count*rangeSize || n > maxRanges*rangeSize {
		return 0, nvme.DataLengthInvalid.Final()
	}
	c.dir, c.work, c.changesDisk = fromHost, discard, true
	return n, c.writable(nvme.Success)
}

// tryDisk executes a short Read or Write command on the loop, if the disk can do it
// without waiting. It returns false if a worker must execute the command.
func (c *command) tryDisk() bool {
	if c.namespace == nil || len(c.data) > maxOnLoop {
		return false
	}
	d, ok := c.namespace.Disk.(ImmediateDisk)
	if !ok {
		return false
	}
	var done bool
	var err error
	failed := nvme.ReadError.Final()
	switch e, _ := c.blocks(); {
	case c.sqe().Opcode() == nvme.IORead:
		done, err = d.TryReadAt(c.data, e.offset)
	case c.sqe().Opcode() == nvme.IOWrite && !c.durable():
		done, err = d.TryWriteAt(c.data, e.offset)
		failed = nvme.WriteFault.Final()
	}
	if err != nil {
		c.status = failed
	}
	return done
}

// durable reports whether the data of a Write command must be durable when the host gets
// the response.
func (c *command) durable() bool {
	const forceUnitAccess = 1 << 14
	return c.sqe().Uint16(50)&forceUnitAccess != 0
}

func read(c *command) nvme.Status {
	e, _ := c.blocks()
	if c.namespace.Disk.ReadAt(c.data, e.offset) != nil {
		return nvme.ReadError.Final()
	}
	return nvme.Success
}

func write(c *command) nvme.Status {
	e, _ := c.blocks()
	if c.namespace.Disk.WriteAt(c.data, e.offset) != nil {
		return nvme.WriteFault.Final()
	}
	if c.durable() {
		return flush(c)
	}
	return nvme.Success
}

func writeZeroes(c *command) nvme.Status {
	e, _ := c.blocks()
	if c.namespace.Disk.Zero(e.offset, e.length) != nil {
		return nvme.WriteFault.Final()
	}
	return nvme.Success
}

func flush(c *command) nvme.Status {
	if c.namespace.Disk.Flush() != nil {
		return nvme.WriteFault.Final()
	}
	return nvme.Success
}

// flushAll flushes every disk of the subsystem.
func (q *queue) flushAll(c *command) nvme.Status {
	for i := range q.controller.subsystem.Namespaces {
		if q.controller.subsystem.Namespaces[i].Disk.Flush() != nil {
			return nvme.WriteFault.Final()
		}
	}
	return nvme.Success
}

// discard executes the command Dataset Management. It discards ranges of blocks if the
// host asks for that, and ignores the other hints.
func discard(c *command) nvme.Status {
	const deallocate = 1 << 2
	if c.sqe().Uint32(44)&deallocate == 0 {
		return nvme.Success
	}
	for i := range int(c.sqe().Uint8(40)) + 1 {
		e, status := c.rangeAt(c.data[i*rangeSize:])
		if status != nvme.Success {
			return status
		}
		if e.length > 0 && c.namespace.Disk.Discard(e.offset, e.length) != nil {
			return nvme.WriteFault.Final()
		}
	}
	return nvme.Success
}

// rangeAt decodes a range of blocks.
func (c *command) rangeAt(b []byte) (extent, nvme.Status) {
	count, first := uint64(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint64(b[8:])
	size := int64(c.namespace.BlockSize)
	all := uint64(c.namespace.Disk.Size() / size)
	if first > all || count > all-first {
		return extent{}, nvme.OutOfRange.Final()
	}
	return extent{int64(first) * size, int64(count) * size}, nvme.Success
}
