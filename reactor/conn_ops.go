package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Write writes the local.Length bytes of local to the peer's memory at remote. The
// application of the peer is not notified. The memory of local must come from Alloc of
// the same loop and device. The application must not change this memory until
// OnCompletion has reported the result. If a message or a READ follows the WRITE on the
// connection, the peer executes it after the WRITE (IBTA vol. 1, 10.8.3.3, table 79).
// The errors are those of Send. A *verbs.ParamError also means that o has an option
// which a WRITE can not have: see SendOptions. If the peer does not allow the access,
// the connection ends with verbs.StatusRemAccessErr. Source: ibv_post_send(3).
func (c *Conn) Write(local verbs.SGE, remote Remote, o SendOptions) error {
	return c.oneSided(verbs.OpWrite, local, remote, 0, &o)
}

// WriteImm is Write, and also sends imm to the peer: when the data is written, the peer's
// OnMessage is called with a Message that has this immediate data. This consumes one
// receive buffer of the peer. For the errors see Write.
func (c *Conn) WriteImm(local verbs.SGE, remote Remote, imm uint32, o SendOptions) error {
	return c.oneSided(verbs.OpWriteImm, local, remote, imm, &o)
}

// Read reads local.Length bytes of the peer's memory at remote into the memory local.
// The rules for this memory and the errors are those of Write. If a message or a WRITE
// follows the READ on the connection, the peer may execute it before the READ has
// completed. To prevent this, set SendOptions.Fence of the message or WRITE.
func (c *Conn) Read(local verbs.SGE, remote Remote, o SendOptions) error {
	return c.oneSided(verbs.OpRead, local, remote, 0, &o)
}

// CompareSwap compares the 8 bytes of the peer's memory at remote with the parameter
// compare. If they are equal, it writes the parameter swap to this memory. Both steps
// together are one atomic operation. OnCompletion gets the value from before the
// operation in Op.Value. The address must be a multiple of 8. All values are in host
// byte order. For the errors see Write. Source: ibv_post_send(3).
func (c *Conn) CompareSwap(remote Remote, compare, swap uint64, o SendOptions) error {
	return c.atomic(verbs.OpCompareSwap, remote, compare, swap, &o)
}

// FetchAdd adds the parameter add to the 8 bytes of the peer's memory at remote, as one
// atomic operation. OnCompletion gets the value from before the operation in Op.Value.
// The address must be a multiple of 8. All values are in host byte order. Memory of
// Alloc belongs to one loop of the peer. Therefore connections to different loops of the
// peer can not share a counter. For the errors see Write.
func (c *Conn) FetchAdd(remote Remote, add uint64, o SendOptions) error {
	return c.atomic(verbs.OpFetchAdd, remote, add, 0, &o)
}

// oneSided stages a WRITE, a WRITE with immediate or a READ.
func (c *Conn) oneSided(code verbs.Opcode, local verbs.SGE, remote Remote, imm uint32, o *SendOptions) error {
	if err := o.checkOneSided(code); err != nil {
		return err
	}
	if err := c.checkSend(0); err != nil {
		return err
	}
	wr, r := c.acceptOp(code, o, true)
	wr.Imm = imm
	r.op.Bytes = local.Length
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	if local.Length > 0 {
		wr.SGEs = c.batch.sgeList(local)
	}
	return nil
}

// atomic stages an atomic operation, with a buffer of the slab for its result.
func (c *Conn) atomic(code verbs.Opcode, remote Remote, operand, swap uint64, o *SendOptions) error {
	if err := o.checkOneSided(code); err != nil {
		return err
	}
	if err := c.checkSend(0); err != nil {
		return err
	}
	if remote.Addr%wordSize != 0 {
		return operr.Wrap("atomic", &verbs.ParamError{
			Field: "remote address", Value: int64(remote.Addr), Limit: wordSize, Reason: "not a multiple of 8",
		})
	}
	b, err := c.device.slab.get()
	if err != nil {
		return operr.Wrap("atomic", err)
	}
	wr, r := c.acceptOp(code, o, true)
	r.op.Bytes, r.buffer = wordSize, b
	b.state = bufferSending
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	wr.CompareAdd, wr.Swap = operand, swap
	wr.SGEs = c.batch.sgeList(verbs.SGE{Addr: b.sge[0].Addr, Length: wordSize, LKey: b.sge[0].LKey})
	return nil
}
