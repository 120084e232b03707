package reactor

import (
	"github.com/rdmaloop/rdmaloop/reactor/internal/longmsg"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A longMode says how a long message is received.
type longMode uint8

const (
	// longIdle: no long message is being received. An announcement changes the mode, and sets
	// heldByLong. After the last byte of the message, or after Discard, the mode is longIdle
	// again.
	longIdle longMode = iota
	// longWhole: the message is read into a buffer, and OnMessage gets the buffer.
	longWhole
	// longInto: the message is read into memory of the application, and OnMessage gets
	// the memory. See LongMessage.Accept.
	longInto
	// longParts: the message is read into several buffers, and OnPart gets each of them.
	// See LongMessage.Parts.
	longParts
	// longDiscarded: the message is dropped, and no further READ is posted. The mode ends
	// when no READ is outstanding.
	longDiscarded
)

// A longReceive has the long message of the peer that is being received. A connection
// receives one long message at a time. The messages behind it wait in recvSide.held.
type longReceive struct {
	imm     uint32 // immediate data of the control messages of the peer
	depth   int    // largest number of outstanding READs
	mode    longMode
	message longmsg.Control // announcement of the message
	total   int             // length of the message in bytes

	at       int    // index of the segment with the next byte to read
	offset   uint32 // offset of the next byte in its segment
	posted   int    // number of bytes for which READs were posted
	received int    // number of bytes that were read
	partAt   int    // offset of the part that OnPart gets; else 0

	// The READs are numbered from 0, modulo 2^32. Those with the numbers from completed to
	// started-1 are outstanding. READ n has the index n%maxLongReads in the field reads.
	reads     [maxLongReads]longRead
	started   uint32
	completed uint32
	// number of READs that have succeeded while the application had paused receiving. They
	// still count as outstanding: see readDone.
	paused int

	// buffer for the message in the mode longWhole; nil before the first READ
	buffer *Buffer
	// memory for the message in the mode longInto
	piece Piece
	// alias is the Buffer of the message that OnMessage gets in the mode longInto. Its memory
	// is piece. It is in no slot.
	alias Buffer

	finished uint32 // number of long messages that were read or discarded, modulo 2^32
	doneDue  bool   // true if longmsg.Done must be sent when the send queue has room
}

// A longRead is one outstanding READ.
type longRead struct {
	length int
	buffer *Buffer // buffer for the part in the mode longParts, and otherwise nil
}

// outstanding returns the number of outstanding READs.
func (r *longReceive) outstanding() int { return int(r.started - r.completed) }

// mayRead reports whether a READ of n bytes may be posted now.
func (r *longReceive) mayRead(n int) bool {
	return r.outstanding() < r.depth && r.posted-r.received+n <= longUnderWay
}

// takes handles a control message. If it reports false, b is for the application, or is the
// announcement of a long message that has to wait.
func (s *longState) takes(b *Buffer) bool {
	c, r := s.conn, &s.receive
	b.announcement = false
	if b.opcode != verbs.WCRecv || b.flags&verbs.WCWithImm == 0 || b.imm != r.imm {
		return false
	}
	switch reason := s.scratch.Decode(b.Bytes()); {
	case reason != "":
		s.violated(0, reason)
	case s.scratch.Kind != longmsg.Announce:
		s.takeControl(&s.scratch)
	case c.recvs.hold != noHoldReason:
		b.announcement = true
		return false
	default:
		s.begin(&s.scratch)
	}
	c.repost(b)
	return true
}

// takeControl handles a control message that is not an announcement.
func (s *longState) takeControl(m *longmsg.Control) {
	if m.Kind == longmsg.Rename {
		s.receive.imm = m.Number
		return
	}
	if reason := s.done(m.Number); reason != "" {
		s.violated(0, reason)
	}
}

// violated ends the connection because the peer has violated the protocol. The length is
// that of the long message, or 0.
func (s *longState) violated(length uint64, reason string) {
	s.closeAfterViolation(&longMessageError{Length: length, Reason: reason})
}

// closeAfterViolation ends the connection because of err, a violation of the protocol.
func (s *longState) closeAfterViolation(err *longMessageError) {
	c := s.conn
	c.closing.reason.setViolation(err)
	c.on(eventReason)
}

// beginHeld begins to receive the long message that b announces, after it has waited.
func (s *longState) beginHeld(b *Buffer) {
	reason := s.scratch.Decode(b.Bytes())
	s.conn.repost(b)
	if reason != "" { // The bytes of a valid announcement have changed.
		s.violated(0, reason)
		return
	}
	s.begin(&s.scratch)
}

// begin begins to receive the long message that m announces. It copies m.
func (s *longState) begin(m *longmsg.Control) {
	c, r := s.conn, &s.receive
	c.recvs.hold |= heldByLong
	r.mode, r.message, r.total = longWhole, *m, int(min(m.Total, maxLease+1))
	r.at, r.offset, r.posted, r.received = 0, 0, 0, 0
	switch {
	case c.state > stateDraining:
		return
	case m.Total > s.limit:
		s.violated(m.Total, "longer than this side accepts")
		return
	case r.depth == 0:
		s.violated(m.Total, "this side can not have READs in flight")
		return
	}
	if c.state == stateOpen {
		c.loop.onLongMessage(c)
	}
	switch {
	case r.mode == longDiscarded:
		s.end()
	case c.state == stateOpen && r.mode == longWhole && c.device.pool.SizeFor(r.total) > c.loop.cfg.Memory.LongConnBytes:
		s.violated(r.message.Total, "longer than Config.Memory.LongConnBytes, and the handler has not called Accept or Parts")
	default:
		s.read()
	}
}

// discard drops the long message that is being received, because the application has
// called Close.
func (s *longState) discard() {
	r := &s.receive
	if r.mode == longIdle {
		return
	}
	r.mode = longDiscarded
	if r.outstanding() == 0 {
		s.end()
		s.conn.scheduleStep() // for the messages behind it
	}
}

// setIdle enters longIdle. The caller delivers the messages that wait.
func (s *longState) setIdle() (target *Buffer) {
	r := &s.receive
	target = r.buffer
	r.mode, r.buffer = longIdle, nil
	s.conn.recvs.hold &^= heldByLong
	return target
}

// end tells the sender that its memory is not needed any more, and delivers the
// message unless it was delivered in parts or is discarded.
func (s *longState) end() {
	c, r := s.conn, &s.receive
	mode := r.mode
	b := s.setIdle()
	r.finished++
	s.sendDone()
	switch mode {
	case longDiscarded:
		c.loop.stats.Discarded++
		s.releaseTarget(b)
	case longParts:
		c.stats.Messages++
		c.loop.stats.Messages++
	case longInto:
		p := r.piece
		b = &r.alias
		b.memory = p.Region.memory[p.Offset : p.Offset+r.total : p.Offset+r.total]
		b.length = r.total
		s.deliver(b)
		b.memory, b.length = nil, 0
		s.endPiece()
	default:
		s.deliver(b)
	}
}

// deliver passes a whole long message to OnMessage.
func (s *longState) deliver(b *Buffer) {
	c := s.conn
	m := &s.receive.message
	b.imm, b.flags, b.opcode = m.Number, 0, verbs.WCRecv
	if m.HasImm {
		b.flags = verbs.WCWithImm
	}
	c.setTime(b, 0)
	c.deliverNow(b)
}

// releaseTarget releases the memory of a long message that is not delivered. The
// parameter b is the buffer of longWhole, or nil.
func (s *longState) releaseTarget(b *Buffer) {
	if b != nil {
		b.recycle()
	}
	s.endPiece()
}

// endPiece ends the use of the Region of the mode longInto, if there is one.
func (s *longState) endPiece() {
	c, r := s.conn, &s.receive
	if r.piece.Region != nil {
		r.piece.Region.uses[c.loop.index].end()
		r.piece = Piece{}
	}
}

// sendDone sends longmsg.Done. If the send queue has no room, retireInternal sends it
// later.
func (s *longState) sendDone() {
	c, r := s.conn, &s.receive
	if r.doneDue = c.sends.flow.internal >= longSlots; !r.doneDue && c.state <= stateDraining {
		s.sendControl(longmsg.Done, r.finished)
	}
}

// fail ends all long messages of a connection that has ended: it completes those of
// this side with err, and drops those of the peer. No READ is outstanding.
func (s *longState) fail(err error) {
	c := s.conn
	for s.send.outstanding() > 0 {
		s.retire(err)
	}
	r := &s.receive
	if r.mode != longIdle {
		c.loop.stats.Discarded++
	}
	s.releaseTarget(s.setIdle())
	for b := c.recvs.nextHeld(); b != nil; b = c.recvs.nextHeld() {
		c.loop.stats.Discarded++
		c.repost(b)
	}
	s.memory.want = 0
	c.loop.longRow.remove(c)
	s.shown.clear()
	c.loop.serveLongRow()
}

// read posts as many READs for the current long message as the limits allow. It
// delivers no message, so it may be called during a callback.
func (s *longState) read() {
	c := s.conn
	r := &s.receive
	switch {
	case c.state == stateDraining:
		s.discard()
	case c.isPaused():
		return
	}
	for r.mode != longIdle && r.mode != longDiscarded && r.posted < r.total {
		seg := &r.message.Segments[r.at]
		limit := int(min(longPiece, seg.Length-r.offset))
		if r.mode == longParts {
			limit = min(limit, longPart)
		}
		if c.state > stateDraining || !r.mayRead(limit) || c.sends.flow.internal >= longSlots {
			return
		}
		sge, n, buffer := s.target(limit)
		if n == 0 {
			return
		}
		s.stageRead(Remote{Addr: seg.Addr + uint64(r.offset), RKey: seg.RKey}, sge)
		r.reads[r.started%maxLongReads] = longRead{length: n, buffer: buffer}
		r.started++
		r.posted += n
		if r.offset += uint32(n); r.offset == seg.Length {
			r.at, r.offset = r.at+1, 0
		}
	}
}

// stageRead stages a READ of a long message.
func (s *longState) stageRead(remote Remote, sge verbs.SGE) {
	c := s.conn
	wr, r := c.stage(verbs.OpRead)
	c.sends.flow.internal++
	r.kind = requestLongRead
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	wr.SGEs = c.sends.batch.sgeList(sge)
}

// target returns the memory for the next READ of at most limit bytes, and the number
// of bytes. In the mode longParts it also returns the buffer. If there is no memory now,
// the number is 0.
func (s *longState) target(limit int) (sge verbs.SGE, n int, buffer *Buffer) {
	c, r := s.conn, &s.receive
	if r.mode == longInto {
		reg := r.piece.Region.uses[c.loop.index].onDevice[c.device.domain.Index].reg
		part, at, n := reg.Find(r.piece.Offset+r.posted, limit)
		return verbs.SGE{Addr: part.Addr + uint64(at), Length: uint32(n), LKey: part.LKey}, n, nil
	}
	b, at := r.buffer, r.posted
	switch {
	case r.mode == longParts:
		if buffer = s.buffer(limit); buffer == nil {
			return sge, 0, nil
		}
		b, at = buffer, 0
	case b == nil:
		if b = s.buffer(r.total); b == nil {
			return sge, 0, nil
		}
		r.buffer = b
	}
	return verbs.SGE{Addr: b.sge[0].Addr + uint64(at), Length: uint32(limit), LKey: b.sge[0].LKey}, limit, buffer
}

// readDone handles the completion of the oldest READ of a long message. During a pause it
// only counts the READ: then the message can neither end nor pass a part to OnPart, and
// finishPaused handles the READ later.
func (s *longState) readDone(err error) {
	if err == nil && s.conn.isPaused() {
		s.receive.paused++
		return
	}
	s.finishPaused()
	s.oldestReadDone(err)
}

// finishPaused handles the READs that have completed during a pause, unless the application
// has paused again.
func (s *longState) finishPaused() {
	for s.receive.paused > 0 && !s.conn.isPaused() {
		s.receive.paused--
		s.oldestReadDone(nil)
	}
}

func (s *longState) oldestReadDone(err error) {
	c, r := s.conn, &s.receive
	read := r.reads[r.completed%maxLongReads]
	r.reads[r.completed%maxLongReads] = longRead{}
	r.completed++
	if err != nil || c.state != stateOpen && c.discardsMessages() {
		if read.buffer != nil {
			read.buffer.recycle()
		}
		if err == nil {
			s.discard()
		}
		return
	}
	if read.buffer != nil {
		s.deliverPart(read.buffer, r.received)
	}
	if r.received += read.length; r.received == r.total && r.mode != longIdle {
		s.end()
		c.deliverHeld()
	}
}

// retireInternal handles the completion of a READ or a control message of the library.
// The parameter err is the result of the request.
func (s *longState) retireInternal(r *sendRequest, err error) {
	c := s.conn
	kind, b := r.kind, r.buffer
	r.buffer = nil
	if b != nil {
		b.recycle()
	}
	if kind == requestAnnouncement {
		s.send.announcing--
		return // retire reports the result
	}
	c.sends.flow.internal--
	if kind == requestLongRead {
		s.readDone(err)
	}
	if err == nil && c.state <= stateDraining {
		if s.receive.doneDue {
			s.sendDone()
		}
		s.read()
	}
}

// readFailed sets the reason for the end of the connection when a READ of a long
// message has failed because of what the peer has announced.
func (s *longState) readFailed(wc *verbs.WC) {
	switch wc.Status {
	case verbs.StatusRemAccessErr, verbs.StatusRemInvReqErr, verbs.StatusRemOpErr:
		s.closeAfterViolation(&longMessageError{Length: s.receive.message.Total, Reason: "the announced memory can not be read", Err: wc.Err()})
	}
}
