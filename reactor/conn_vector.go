package reactor

import (
	"math"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// ReadV is Read with several pieces of local memory, at most Config.MaxPieces. The pieces
// get consecutive bytes of the peer's memory. The slice local is not kept. A piece of a
// Region that is larger than verbs.DeviceAttr.MaxMRSize may count as two pieces.
func (c *Conn) ReadV(local []Piece, remote Remote, o SendOptions) error {
	if err := o.checkOneSided(verbs.OpRead); err != nil {
		return err
	}
	return c.vectored(verbs.OpRead, local, remote, &o, maxOperation)
}

// WriteV is Write with several pieces of local memory, as for ReadV. With
// SendOptions.HasImm it is a WRITE with immediate data, as WriteImm.
func (c *Conn) WriteV(local []Piece, remote Remote, o SendOptions) error {
	if err := o.checkWrite(); err != nil {
		return err
	}
	return c.vectored(o.writeCode(), local, remote, &o, maxOperation)
}

// SendV sends one message that consists of several pieces, without a copy. If the message
// has more than Config.MaxMessage bytes, the Regions of its pieces need
// verbs.AccessRemoteRead: see "Long messages" in the comment of the package. The memory
// must not change until OnCompletion, or longer with SendOptions.Quiet. The slice is not
// kept. The errors are those of Write.
func (c *Conn) SendV(message []Piece, o SendOptions) error {
	if err := o.checkQuiet(verbs.OpSend); err != nil {
		return err
	}
	if err := o.checkImm(verbs.OpSend); err != nil {
		return err
	}
	if err := c.checkInvalidate(&o); err != nil {
		return err
	}
	if c.long != nil {
		size := totalLength(message)
		if err := c.checkMessage(size, &o); err != nil {
			return err
		}
		if c.isLong(size) {
			return c.sendLongPieces(message, &o)
		}
	}
	return c.vectored(o.sendCode(), message, Remote{}, &o, uint64(c.loop.cfg.MaxMessage))
}

// WriteBytes writes a copy of b to the peer's memory. The length of b is at most 1 GiB.
// If it is at most Config.MaxInline, the copy needs no registered memory. A copy of more
// than Config.MaxMessage bytes is in a Buffer of LeaseSize. The caller may use b again
// when WriteBytes returns. With SendOptions.HasImm the operation is a WRITE with
// immediate data. The errors are those of Send and Write.
func (c *Conn) WriteBytes(b []byte, remote Remote, o SendOptions) error {
	if err := o.checkWrite(); err != nil {
		return err
	}
	if err := checkRange("length", len(b), 0, maxLease); err != nil {
		return operr.Wrap("write", err)
	}
	if err := c.checkSend(0); err != nil {
		return err
	}
	if o.HasImm && c.longWindowFull() {
		return c.wouldBlock()
	}
	if len(b) <= c.maxInline {
		wr, r := c.acceptWrite(remote, &o)
		c.setInline(wr, r, b)
		return nil
	}
	buf, err := c.copyToBuffer(b)
	if err != nil {
		return err
	}
	wr, r := c.acceptWrite(remote, &o)
	c.setBuffer(wr, r, buf)
	return nil
}

// acceptWrite stages a WRITE. The caller adds the payload.
func (c *Conn) acceptWrite(remote Remote, o *SendOptions) (*verbs.SendWR, *sendRequest) {
	wr, r := c.acceptOp(o.writeCode(), o, o.reportOp())
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	return wr, r
}

// vectored stages an operation with several pieces. The parameter limit is the largest
// number of bytes.
func (c *Conn) vectored(code verbs.Opcode, pieces []Piece, remote Remote, o *SendOptions, limit uint64) error {
	if err := c.checkSend(0); err != nil {
		return err
	}
	if isMessage(code) && c.longWindowFull() {
		return c.wouldBlock()
	}
	at := len(c.batch.sges)
	total, err := c.addPieces(code, pieces, limit)
	if err != nil {
		c.batch.sges = c.batch.sges[:at]
		return err
	}
	wr, r := c.acceptOp(code, o, o.reportOp())
	if !isSend(code) {
		wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	}
	wr.SGEs, r.bytes = c.batch.sges[at:], uint32(total)
	c.countPieces(r, pieces)
	return nil
}

// addPieces adds the scatter/gather elements of all pieces to the batch, and returns the
// number of bytes. After an error the caller must remove the elements.
func (c *Conn) addPieces(code verbs.Opcode, pieces []Piece, limit uint64) (total uint64, err error) {
	at := len(c.batch.sges)
	for i := range pieces {
		if _, err = c.addPiece(code, &pieces[i]); err != nil {
			return 0, err
		}
		total += uint64(pieces[i].Length)
	}
	if n := len(c.batch.sges) - at; n > c.maxSGE {
		return 0, tooMany(code, "pieces", n, uint64(c.maxSGE))
	}
	if total > limit {
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
		u := &pieces[i].Region.uses[c.loop.index]
		u.underWay++
		if r.use == nil {
			r.use = u
			continue
		}
		c.uses.push(u)
		r.more++
	}
}
