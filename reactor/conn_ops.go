package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Write writes the local memory to the peer's memory, without notifying the peer. The
// peer executes later messages and READs of the connection after the WRITE (IBTA vol. 1,
// 10.8.3.3, table 79). Source: ibv_post_send(3).
//
// The memory of the parameter local must not change until OnCompletion, or longer with
// SendOptions.Quiet. If the peer forbids the access, the connection ends with
// verbs.StatusRemAccessErr.
//
// The errors are those of Send, a *verbs.ParamError for a wrong option or a piece outside
// its Region, verbs.ErrForeign for a Region of another engine, ErrClosed for a closed
// Region, and the errors of Engine.Register if the device does not know the Region yet.
func (c *Conn) Write(local Piece, remote Remote, o SendOptions) error {
	return c.oneSided(verbs.OpWrite, &local, remote, 0, &o)
}

// WriteImm is Write with immediate data. When the memory is written, the peer's
// OnMessage gets a Message with the immediate data. This consumes a receive buffer of
// the peer. If the parameter local is the zero Piece, nothing is written, and the zero
// Remote will do.
func (c *Conn) WriteImm(local Piece, remote Remote, imm uint32, o SendOptions) error {
	return c.oneSided(verbs.OpWriteImm, &local, remote, imm, &o)
}

// Read reads local.Length bytes of the peer's memory into the local memory. The errors,
// and the rules for the memory of the parameter local, are those of Write. The Region
// needs verbs.AccessLocalWrite. Later messages and WRITEs may be executed before the READ
// has completed, unless they set SendOptions.Fence.
func (c *Conn) Read(local Piece, remote Remote, o SendOptions) error {
	return c.oneSided(verbs.OpRead, &local, remote, 0, &o)
}

// CompareSwap compares 8 bytes of the peer's memory with the parameter compare. If they
// are equal, it replaces them by the parameter swap. This is one atomic operation.
// OnCompletion gets the old value in Op.Value.
//
// The address is a multiple of 8. Values are in host byte order. Errors are as for
// Write. Source: ibv_post_send(3).
func (c *Conn) CompareSwap(remote Remote, compare, swap uint64, o SendOptions) error {
	return c.atomic(verbs.OpCompareSwap, remote, compare, swap, &o)
}

// FetchAdd increases the 8 bytes of the peer's memory by the given value, as one atomic
// operation. OnCompletion gets the old value in Op.Value. The address, the byte order
// and the errors are as for CompareSwap.
func (c *Conn) FetchAdd(remote Remote, add uint64, o SendOptions) error {
	return c.atomic(verbs.OpFetchAdd, remote, add, 0, &o)
}

// oneSided stages a WRITE, a WRITE with immediate or a READ.
func (c *Conn) oneSided(code verbs.Opcode, local *Piece, remote Remote, imm uint32, o *SendOptions) error {
	if err := o.checkOneSided(code); err != nil {
		return err
	}
	if err := c.checkSend(0); err != nil {
		return err
	}
	if code == verbs.OpWriteImm && c.longWindowFull() {
		return c.wouldBlock()
	}
	at := len(c.batch.sges)
	use, err := c.addPiece(code, local)
	if err != nil {
		return err
	}
	wr, r := c.acceptOp(code, o, o.reportOp())
	wr.Imm = imm
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	if use != nil {
		wr.SGEs = c.batch.sges[at:]
		use.underWay++
		r.use, r.bytes = use, uint32(local.Length)
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
	wr, r := c.acceptOp(code, o, reportAlways)
	r.bytes, r.buffer = wordSize, b
	b.state = bufferSending
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	wr.CompareAdd, wr.Swap = operand, swap
	wr.SGEs = c.batch.sgeList(verbs.SGE{Addr: b.sge[0].Addr, Length: wordSize, LKey: b.sge[0].LKey})
	return nil
}
