package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

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

// addPiece adds a scatter/gather element to the batch, for an operation with one piece.
// It returns the use of the region, or nil for a piece without bytes. It is faster than
// addPieces.
func (c *Conn) addPiece(code verbs.Opcode, p *Piece) (*regionUse, error) {
	if r, l := p.Region, c.loop; r != nil && r.engine == l.engine && p.fits() && (code != verbs.OpRead || r.access&verbs.AccessLocalWrite != 0) {
		u := &r.uses[l.index]
		if at := c.device.domain.index; !u.closed && at < len(u.onDevice) && u.onDevice[at].single {
			use := &u.onDevice[at]
			c.batch.sges = append(c.batch.sges, verbs.SGE{Addr: use.addr + uint64(p.Offset), Length: uint32(p.Length), LKey: use.lkey})
			return u, nil
		}
	}
	return c.addAnyPiece(code, p)
}

// addAnyPiece adds the scatter/gather elements of a piece to the batch. It returns the
// use of the region, or nil for a piece without bytes.
func (c *Conn) addAnyPiece(code verbs.Opcode, p *Piece) (*regionUse, error) {
	if *p == (Piece{}) {
		return nil, nil
	}
	if err := p.check(c, code); err != nil {
		return nil, err
	}
	u, sges := &p.Region.uses[c.loop.index], c.batch.sges
	reg, err := u.on(c.device.domain)
	if err != nil {
		return nil, operr.Wrap(opName(code), err)
	}
	if p.Length == 0 {
		return nil, nil
	}
	all := reg.appendSGEs(sges, p.Offset, p.Length)
	if n := len(all) - len(sges); n > c.maxSGE {
		return nil, tooMany(code, "pieces", n, uint64(c.maxSGE))
	}
	c.batch.sges = all
	return u, nil
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
