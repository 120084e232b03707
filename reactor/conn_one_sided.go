package reactor

import (
	"math"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Write writes the pieces of local memory, at most Transport.MaxPieces of them, to consecutive
// bytes of the peer's memory. The peer is not notified. It executes later messages and READs of
// the connection after the WRITE (IBTA vol. 1, 10.8.3.3, table 79). Source: ibv_post_send(3).
//
// With OpOptions.HasImm it is a WRITE with immediate data: when the memory is written, the
// peer's OnMessage gets a Message with the immediate data, which consumes a receive buffer of
// the peer. Without pieces nothing is written, and the zero Remote will do.
//
// The peer's memory needs verbs.AccessRemoteWrite.
//
// The local memory must not change until OnCompletion, or longer with OpOptions.Quiet. The
// slice local is not kept. A piece of a Region that is larger than verbs.DeviceAttr.MaxMRSize
// may count as two pieces. If the peer forbids the access, the connection ends with
// verbs.StatusRemAccessErr.
//
// The errors are those of Send, a *verbs.ParamError for a wrong option or a piece outside
// its Region, verbs.ErrForeign for a Region of another engine, ErrClosed for a closed
// Region, and the errors of Engine.Register if the device does not know the Region yet.
func (c *Conn) Write(remote Remote, o *OpOptions, local ...Piece) error {
	c.loop.owner.check()
	o = o.orNone()
	if err := o.checkWrite(); err != nil {
		return err
	}
	return c.vectored(o.writeCode(), local, remote, o, maxOperation)
}

// Read reads consecutive bytes of the peer's memory into the pieces of local memory. The errors,
// and the rules for the parameter local, are those of Write. The Regions need
// verbs.AccessLocalWrite, and the peer's memory verbs.AccessRemoteRead. Later messages and WRITEs
// may be executed before the READ has completed, unless they set OpOptions.Fence.
func (c *Conn) Read(remote Remote, o *OpOptions, local ...Piece) error {
	c.loop.owner.check()
	o = o.orNone()
	if err := o.checkOneSided(verbs.OpRead); err != nil {
		return err
	}
	return c.vectored(verbs.OpRead, local, remote, o, maxOperation)
}

// CompareSwap compares 8 bytes of the peer's memory with the parameter compare. If they
// are equal, it replaces them by the parameter swap. This is one atomic operation.
// OnCompletion gets the old value in Op.Value.
//
// The address is a multiple of 8; otherwise the error is a *verbs.ParamError. The peer's memory
// needs verbs.AccessRemoteAtomic. Values are in host byte order. Errors are as for
// Write. Source: ibv_post_send(3).
func (c *Conn) CompareSwap(remote Remote, compare, swap uint64, o *OpOptions) error {
	c.loop.owner.check()
	return c.atomic(verbs.OpCompareSwap, remote, compare, swap, o.orNone())
}

// FetchAdd increases the 8 bytes of the peer's memory by the given value, as one atomic
// operation. OnCompletion gets the old value in Op.Value. The address, the byte order
// and the errors are as for CompareSwap.
func (c *Conn) FetchAdd(remote Remote, add uint64, o *OpOptions) error {
	c.loop.owner.check()
	return c.atomic(verbs.OpFetchAdd, remote, add, 0, o.orNone())
}

// atomic stages an atomic operation, with a buffer of the pool for its result.
func (c *Conn) atomic(code verbs.Opcode, remote Remote, operand, swap uint64, o *OpOptions) error {
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
	b, err := c.device.smallBuffer()
	if err != nil {
		return operr.Wrap("atomic", err)
	}
	wr, r := c.acceptOp(code, o, reportAlways)
	r.bytes, r.buffer = wordSize, b
	b.state = bufferSending
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	wr.CompareAdd, wr.Swap = operand, swap
	wr.SGEs = c.sends.batch.sgeList(verbs.SGE{Addr: b.sge[0].Addr, Length: wordSize, LKey: b.sge[0].LKey})
	return nil
}

// SendV sends one message that consists of several pieces, without a copy. If the message
// has more than Config.MaxMessage bytes, the Regions of its pieces need
// verbs.AccessRemoteRead: see "Long messages" in the comment of the package. The memory
// must not change until OnCompletion, or longer with OpOptions.Quiet. The slice is not
// kept. The errors are those of Write.
func (c *Conn) SendV(o *OpOptions, message ...Piece) error {
	c.loop.owner.check()
	o = o.orNone()
	if err := o.checkQuiet(verbs.OpSend); err != nil {
		return err
	}
	if err := o.checkImm(verbs.OpSend); err != nil {
		return err
	}
	if err := c.checkInvalidate(o); err != nil {
		return err
	}
	if c.long != nil {
		size := totalLength(message)
		switch long, err := c.checkMessage(size, o); {
		case err != nil:
			return err
		case long:
			return c.long.sendPieces(message, o)
		}
	}
	return c.vectored(o.sendCode(), message, Remote{}, o, uint64(c.loop.cfg.MaxMessage))
}

// WriteBytes writes a copy of b to the peer's memory. The length of b is at most 1 GiB.
// If it is at most Config.Transport.MaxInline, the copy needs no registered memory. A copy of more
// than Config.MaxMessage bytes is in a Buffer as that of Lease. The caller may use b again
// when WriteBytes returns. With OpOptions.HasImm the operation is a WRITE with
// immediate data. The errors are those of Send and Write.
func (c *Conn) WriteBytes(remote Remote, b []byte, o *OpOptions) error {
	c.loop.owner.check()
	o = o.orNone()
	if err := o.checkWrite(); err != nil {
		return err
	}
	if err := operr.CheckRange("length", len(b), 0, maxLease); err != nil {
		return operr.Wrap("write", err)
	}
	if err := c.checkSend(0); err != nil {
		return err
	}
	if o.HasImm && c.longWindowFull() {
		return c.wouldBlock()
	}
	if len(b) <= int(c.sends.maxInline) {
		wr, r := c.acceptWrite(remote, o)
		c.sends.setInline(wr, r, b)
		return nil
	}
	buf, err := c.copyToBuffer(b)
	if err != nil {
		return err
	}
	wr, r := c.acceptWrite(remote, o)
	c.sends.setBuffer(wr, r, buf)
	return nil
}

// acceptWrite stages a WRITE. The caller adds the payload.
func (c *Conn) acceptWrite(remote Remote, o *OpOptions) (*verbs.SendWR, *sendRequest) {
	wr, r := c.acceptOp(o.writeCode(), o, o.reportOp())
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	return wr, r
}

// vectored stages an operation with several pieces. The parameter limit is the largest
// number of bytes.
func (c *Conn) vectored(code verbs.Opcode, pieces []Piece, remote Remote, o *OpOptions, limit uint64) error {
	if err := c.checkSend(0); err != nil {
		return err
	}
	if isMessage(code) && c.longWindowFull() {
		return c.wouldBlock()
	}
	at := len(c.sends.batch.sges)
	total, err := c.addPieces(code, pieces, limit)
	if err != nil {
		c.sends.batch.sges = c.sends.batch.sges[:at]
		return err
	}
	wr, r := c.acceptOp(code, o, o.reportOp())
	if !isSend(code) {
		wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	}
	wr.SGEs, r.bytes = c.sends.batch.sges[at:], uint32(total)
	c.countPieces(r, pieces)
	return nil
}

// addPieces adds the scatter/gather elements of all pieces to the batch, and returns the
// number of bytes. After an error the caller must remove the elements.
func (c *Conn) addPieces(code verbs.Opcode, pieces []Piece, limit uint64) (total uint64, err error) {
	at := len(c.sends.batch.sges)
	for i := range pieces {
		if err = c.addPiece(code, &pieces[i]); err != nil {
			return 0, err
		}
		total += uint64(pieces[i].Length)
	}
	if n := len(c.sends.batch.sges) - at; n > int(c.sends.maxSGE) {
		return 0, tooMany(code, "pieces", n, uint64(c.sends.maxSGE))
	}
	switch {
	case total <= limit:
	case isSend(code):
		return 0, c.tooLong(int(min(total, math.MaxInt)))
	default:
		return 0, tooMany(code, "bytes", int(min(total, math.MaxInt)), limit)
	}
	return total, nil
}

// countPieces counts the pieces with bytes of an accepted operation, until it completes.
func (c *Conn) countPieces(r *sendRequest, pieces []Piece) {
	for i := range pieces {
		if pieces[i].Length == 0 {
			continue
		}
		if c.sends.uses.begin(&r.use, &pieces[i].Region.uses[c.loop.index]) {
			r.more++
		}
	}
}

// A Piece is a part of a Region, for an operation of a connection. The zero value has no
// bytes.
type Piece struct {
	Region *Region
	Offset int // offset of the first byte in the Region, in bytes
	Length int // length in bytes
}

// maxOperation is the largest number of bytes of one operation (IBTA vol. 1, 9.7.2).
const maxOperation = 1 << 31

// fits reports whether the piece has 1 to maxOperation bytes, all of which are in its
// Region.
func (p *Piece) fits() bool {
	size := uint(len(p.Region.memory))
	return p.Length > 0 && uint(p.Length) <= min(size, maxOperation) && uint(p.Offset) <= size-uint(p.Length)
}

// addPiece adds the scatter/gather elements of a piece to the batch.
func (c *Conn) addPiece(code verbs.Opcode, p *Piece) error {
	if r, l := p.Region, c.loop; r != nil && r.engine == l.engine && p.fits() && (code != verbs.OpRead || r.access&verbs.AccessLocalWrite != 0) {
		u := &r.uses[l.index]
		if at := c.device.domain.Index; !u.closed && at < len(u.onDevice) && u.onDevice[at].single {
			use := &u.onDevice[at]
			c.sends.batch.sges = append(c.sends.batch.sges, verbs.SGE{Addr: use.addr + uint64(p.Offset), Length: uint32(p.Length), LKey: use.lkey})
			return nil
		}
	}
	return c.addAnyPiece(code, p)
}

// addAnyPiece adds the scatter/gather elements of a piece to the batch.
func (c *Conn) addAnyPiece(code verbs.Opcode, p *Piece) error {
	if *p == (Piece{}) {
		return nil
	}
	if err := p.check(c, code); err != nil {
		return err
	}
	reg, err := p.Region.uses[c.loop.index].on(c.device.domain)
	if err != nil {
		return operr.Wrap(opName(code), err)
	}
	if p.Length == 0 {
		return nil
	}
	c.sends.batch.sges = reg.AppendSGEs(c.sends.batch.sges, p.Offset, p.Length)
	return nil
}

// check returns an error if an operation of the connection can not use the piece.
func (p *Piece) check(c *Conn, code verbs.Opcode) error {
	r := p.Region
	switch {
	case r == nil || r.engine != c.loop.engine:
		return errForeignRegion
	case r.uses[c.loop.index].closed:
		return errRegionClosed
	}
	err := r.checkRange(p.Offset, p.Length)
	switch {
	case err != nil:
	case uint(p.Length) > maxOperation:
		err = &verbs.ParamError{Field: "length", Value: int64(p.Length), Limit: maxOperation}
	case code == verbs.OpRead && r.access&verbs.AccessLocalWrite == 0:
		err = &verbs.ParamError{Field: "region", NotNumber: true, Reason: "a READ needs AccessLocalWrite"}
	}
	return operr.Wrap(opName(code), err)
}

// tooMany returns the error of an operation with too many pieces or bytes.
func tooMany(code verbs.Opcode, field string, value int, limit uint64) error {
	return operr.Wrap(opName(code), &verbs.ParamError{Field: field, Value: int64(value), Limit: int64(limit)})
}
