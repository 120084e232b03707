package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// readLong posts as many READs for the current long message as the limits allow. It
// delivers no message, so it may be called during a callback.
func (c *Conn) readLong() {
	if c.state == stateDraining {
		c.discardLong()
	}
	r := &c.long.receive
	for r.mode != longIdle && r.mode != longDiscarded && r.posted < r.total {
		s := &r.message.segments[r.at]
		limit := int(min(longPiece, s.length-r.offset))
		if r.mode == longParts {
			limit = min(limit, longPart)
		}
		if c.state > stateDraining || !r.mayRead(limit) || c.flow.internal >= longSlots {
			return
		}
		sge, n, buffer := c.longTarget(limit)
		if n == 0 {
			return
		}
		c.stageRead(Remote{Addr: s.remote.Addr + uint64(r.offset), RKey: s.remote.RKey}, sge)
		r.reads[r.started%maxLongReads] = longRead{length: n, buffer: buffer}
		r.started++
		r.posted += n
		if r.offset += uint32(n); r.offset == s.length {
			r.at, r.offset = r.at+1, 0
		}
	}
}

// stageRead stages a READ of a long message.
func (c *Conn) stageRead(remote Remote, sge verbs.SGE) {
	wr, q := c.stage(verbs.OpRead, true)
	c.flow.internal++
	q.kind = requestLongRead
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	wr.SGEs = c.batch.sgeList(sge)
}

// longTarget returns the memory for the next READ of at most limit bytes, and the number
// of bytes. In the mode longParts it also returns the buffer. If there is no memory now,
// the number is 0.
func (c *Conn) longTarget(limit int) (sge verbs.SGE, n int, buffer *Buffer) {
	r := &c.long.receive
	if r.mode == longInto {
		reg := r.piece.Region.uses[c.loop.index].onDevice[c.device.domain.index].reg
		part, at, n := reg.find(r.piece.Offset+r.posted, limit)
		return verbs.SGE{Addr: part.addr + uint64(at), Length: uint32(n), LKey: part.lkey}, n, nil
	}
	b, at := r.buffer, r.posted
	switch {
	case r.mode == longParts:
		if buffer = c.long.buffer(limit); buffer == nil {
			return sge, 0, nil
		}
		b, at = buffer, 0
	case b == nil:
		if b = c.long.buffer(r.total); b == nil {
			return sge, 0, nil
		}
		r.buffer = b
	}
	return verbs.SGE{Addr: b.sge[0].Addr + uint64(at), Length: uint32(limit), LKey: b.sge[0].LKey}, limit, buffer
}

// longReadDone handles the completion of the oldest READ of a long message.
func (c *Conn) longReadDone(err error) {
	r := &c.long.receive
	read := r.reads[r.completed%maxLongReads]
	r.reads[r.completed%maxLongReads] = longRead{}
	r.completed++
	if err != nil || c.state != stateOpen && c.discardsMessages() {
		if read.buffer != nil {
			read.buffer.recycle()
		}
		if err == nil {
			c.discardLong()
		}
		return
	}
	if read.buffer != nil {
		c.deliverPart(read.buffer, r.received)
	}
	if r.received += read.length; r.received == r.total && r.mode != longIdle {
		c.endLong()
		c.deliverWaiting()
	}
}

// retireInternal handles the completion of a READ or a control message of the library.
// The parameter err is the result of the request.
func (c *Conn) retireInternal(q *sendRequest, err error) {
	kind, b := q.kind, q.buffer
	q.buffer = nil
	if b != nil {
		b.recycle()
	}
	if kind == requestAnnouncement {
		c.long.send.announcing--
		return // retireLong reports the result
	}
	c.flow.internal--
	if kind == requestLongRead {
		c.longReadDone(err)
	}
	if err == nil && c.state <= stateDraining {
		if c.long.receive.doneDue {
			c.sendDone()
		}
		c.readLong()
	}
}

// longReadFailed sets the reason for the end of the connection when a READ of a long
// message has failed because of what the peer has announced.
func (c *Conn) longReadFailed(wc *verbs.WC) {
	switch wc.Status {
	case verbs.StatusRemAccessErr, verbs.StatusRemInvReqErr, verbs.StatusRemOpErr:
		c.closeAfterViolation(&LongMessageError{Length: c.long.receive.message.total, Reason: "the announced memory can not be read", Err: wc.Err()})
	}
}
