package reactor

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Write writes local to the peer's memory, and does not involve its application.
// local is memory of Loop.Alloc of the same loop, and the device's until
// OnCompletion has the result. What is sent or read after it finds it done
// (IBTA vol. 1, 10.8.3.3, table 79). The errors are those of Send; what the peer
// does not allow fails the connection with verbs.StatusRemAccessErr.
func (c *Conn) Write(local verbs.SGE, remote Remote, o SendOptions) error {
	return c.oneSided(verbs.OpWrite, local, remote, &o)
}

// WriteImm is Write, except that when it is done the peer gets imm in OnMessage,
// at the cost of one of its receive buffers.
func (c *Conn) WriteImm(local verbs.SGE, remote Remote, imm uint32, o SendOptions) error {
	o.Imm = imm
	return c.oneSided(verbs.OpWriteImm, local, remote, &o)
}

// Read reads local.Length bytes of the peer's memory into local. A message or
// a WRITE behind it may overtake it, unless that has SendOptions.Fence. For memory
// and errors see Write.
func (c *Conn) Read(local verbs.SGE, remote Remote, o SendOptions) error {
	return c.oneSided(verbs.OpRead, local, remote, &o)
}

// CompareSwap stores swap in the peer's eight bytes if compare is there. What
// was there comes to OnCompletion as Op.Value. The address is a multiple of eight.
// For errors see Write.
func (c *Conn) CompareSwap(remote Remote, compare, swap uint64, o SendOptions) error {
	return c.atomic(verbs.OpCompareSwap, remote, compare, swap, &o)
}

// FetchAdd adds add to the peer's eight bytes. What was there comes to
// OnCompletion as Op.Value. The address is a multiple of eight. Memory is of one loop
// (Loop.Alloc), and so are counters in it: peers on other loops of the server have
// others. For errors see Write.
func (c *Conn) FetchAdd(remote Remote, add uint64, o SendOptions) error {
	return c.atomic(verbs.OpFetchAdd, remote, add, 0, &o)
}

func (c *Conn) oneSided(code verbs.Opcode, local verbs.SGE, remote Remote, o *SendOptions) error {
	if err := c.checkSend(0); err != nil {
		return err
	}
	wr, r := c.acceptOp(code, o, true)
	r.op.Bytes = local.Length
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	if local.Length > 0 {
		wr.SGEs = c.batch.sgeList(local)
	}
	return nil
}

func (c *Conn) atomic(code verbs.Opcode, remote Remote, operand, swap uint64, o *SendOptions) error {
	if err := c.checkSend(0); err != nil {
		return err
	}
	if remote.Addr%wordSize != 0 {
		return verbs.Wrap("atomic", &verbs.ParamError{
			Field: "remote address", Value: int64(remote.Addr), Limit: wordSize, Reason: "not a multiple of 8",
		})
	}
	b, err := c.device.slab.get()
	if err != nil {
		return verbs.Wrap("atomic", err)
	}
	wr, r := c.acceptOp(code, o, true)
	r.op.Bytes, r.buffer = wordSize, b
	b.state = bufferSending
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	wr.CompareAdd, wr.Swap = operand, swap
	wr.SGEs = c.batch.sgeList(verbs.SGE{Addr: b.sge[0].Addr, Length: wordSize, LKey: b.sge[0].LKey})
	return nil
}

// wordSize is what an atomic works on, in bytes.
const wordSize = 8

// word is the result of an atomic, which a device leaves in the host's order.
func (b *Buffer) word() uint64 { return binary.NativeEndian.Uint64(b.memory) }
