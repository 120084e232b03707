package reactor

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor/internal/longmsg"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// check is checkMessage for a connection with long messages. If the message has the
// immediate data of control messages, check first sends longmsg.Rename.
func (s *longState) check(size int, o *OpOptions) (long bool, err error) {
	c := s.conn
	long = size > c.loop.cfg.MaxMessage
	if long && c.state == stateOpen {
		if uint64(size) > s.send.limit {
			return false, operr.Wrap("send", &verbs.ParamError{
				Field: "message", Value: int64(size), Limit: int64(s.send.limit),
				Reason: fmt.Sprintf("Config.MaxMessage is %d, and the peer accepts long messages of up to %d bytes: see its Config.MaxLongMessage", c.loop.cfg.MaxMessage, s.send.limit),
			})
		}
		if o.Invalidate != 0 {
			return false, optionRefused(verbs.OpSend, "Invalidate", "a long message invalidates no key")
		}
		size = 0
	}
	if err := c.checkSend(size); err != nil {
		return false, err
	}
	rename := o.HasImm && o.Imm == s.send.imm
	if c.longWindowFull() || rename && c.sends.flow.internal >= longSlots {
		return false, c.wouldBlock()
	}
	if rename {
		s.sendControl(longmsg.Rename, s.send.imm+1)
		s.send.imm++
	}
	return long, nil
}

// sendControl sends a control message without segments. If there is no memory for it, the
// connection ends.
func (s *longState) sendControl(kind longmsg.Kind, number uint32) {
	c := s.conn
	s.scratch = longmsg.Control{Kind: kind, Number: number}
	b := s.scratch.AppendTo(s.encoded[:0])
	buf, err := s.controlBuffer(b)
	if err != nil {
		c.endWith(err)
		return
	}
	wr, r := c.stage(verbs.OpSendImm)
	wr.Imm = s.send.imm
	r.kind = requestControl
	c.sends.flow.internal++
	s.setControl(wr, r, b, buf)
}

// controlBuffer returns a buffer with the encoded control message b, or nil if b is sent
// inline.
func (s *longState) controlBuffer(b []byte) (*Buffer, error) {
	c := s.conn
	if len(b) <= int(c.sends.maxInline) {
		return nil, nil
	}
	return c.copyToBuffer(b)
}

// setControl makes an encoded control message the payload of a request. The parameter
// buf is the result of controlBuffer for b.
func (s *longState) setControl(wr *verbs.SendWR, r *sendRequest, b []byte, buf *Buffer) {
	c := s.conn
	if buf == nil {
		c.sends.setInline(wr, r, b)
		return
	}
	c.sends.setBuffer(wr, r, buf)
}

// sendCopy sends a copy of b as a long message.
func (s *longState) sendCopy(b []byte, o *OpOptions) error {
	c := s.conn
	buf, err := c.lease(len(b))
	if err != nil {
		return operr.Wrap("send", err)
	}
	buf.length = copy(buf.memory, b)
	if err := s.sendBuffer(buf, o); err != nil {
		buf.recycle()
		return err
	}
	return nil
}

// sendBuffer sends the message in b as a long message. The peers of other connections
// must not know the key of b. After an error b still belongs to the caller.
func (s *longState) sendBuffer(b *Buffer, o *OpOptions) error {
	m := s.newAnnouncement(o)
	mr := b.slot.Region()
	m.Add(longmsg.Segment{Addr: mr.Addr(), RKey: mr.RKey(), Length: uint32(b.length)})
	sent, err := s.announce(o, o.reportMessage())
	if err != nil {
		return err
	}
	b.shownTo, b.state = s, bufferSending
	sent.buffer = b
	return nil
}

// sendPieces sends a message that consists of pieces as a long message.
func (s *longState) sendPieces(pieces []Piece, o *OpOptions) error {
	c := s.conn
	if o.Quiet {
		return optionRefused(verbs.OpSend, "Quiet", "the completion of a long message does not follow the order of the others")
	}
	m := s.newAnnouncement(o)
	for i := range pieces {
		if err := s.addSegments(m, &pieces[i]); err != nil {
			return err
		}
	}
	sent, err := s.announce(o, reportAlways)
	if err != nil {
		return err
	}
	for i := range pieces {
		if pieces[i].Length == 0 {
			continue
		}
		if s.send.uses.begin(&sent.use, &pieces[i].Region.uses[c.loop.index]) {
			sent.more++
		}
	}
	return nil
}

// addSegments adds the segments of a piece to an announcement.
func (s *longState) addSegments(m *longmsg.Control, p *Piece) error {
	c := s.conn
	if *p == (Piece{}) {
		return nil
	}
	if err := p.check(c, verbs.OpSend); err != nil {
		return err
	}
	if p.Region.access&verbs.AccessRemoteRead == 0 {
		return operr.Wrap("send", &verbs.ParamError{Field: "region", NotNumber: true, Reason: "a message longer than Config.MaxMessage needs AccessRemoteRead"})
	}
	reg, err := p.Region.uses[c.loop.index].on(c.device.domain)
	if err != nil {
		return operr.Wrap("send", err)
	}
	for offset, length := p.Offset, p.Length; length > 0; {
		if m.Count == longmsg.MaxSegments {
			return tooMany(verbs.OpSend, "pieces", longmsg.MaxSegments+1, longmsg.MaxSegments)
		}
		part, at, n := reg.Find(offset, length)
		m.Add(longmsg.Segment{Addr: part.Addr + uint64(at), RKey: part.RKey, Length: uint32(n)})
		offset, length = offset+n, length-n
	}
	return nil
}

// newAnnouncement returns an announcement without segments, in longState.scratch.
func (s *longState) newAnnouncement(o *OpOptions) *longmsg.Control {
	s.scratch = longmsg.Control{Kind: longmsg.Announce, HasImm: o.HasImm, Number: o.Imm}
	return &s.scratch
}

// announce sends the announcement in longState.scratch, and returns the description of
// the message. The caller adds the memory that the message uses to the description.
func (s *longState) announce(o *OpOptions, report reportWhen) (*longSend, error) {
	c := s.conn
	b := s.scratch.AppendTo(s.encoded[:0])
	buf, err := s.controlBuffer(b)
	if err != nil {
		return nil, err
	}
	total := uint32(s.scratch.Total)
	sent := &s.send.ring[s.send.announced%longWindow]
	*sent = longSend{op: Op{Code: o.sendCode(), Tag: o.Tag, Bytes: total}, number: c.sends.messages, report: report}
	s.send.announced++
	wr, r := c.acceptOp(verbs.OpSendImm, o, reportNever)
	wr.Imm = s.send.imm
	r.kind = requestAnnouncement
	s.send.announcing++
	s.setControl(wr, r, b, buf)
	return sent, nil
}

// done handles longmsg.Done of the peer: it completes long messages. The result is "",
// or the reason why the number is wrong.
func (s *longState) done(number uint32) (reason string) {
	c := s.conn
	q := &s.send
	if n := number - q.done; n == 0 || n > uint32(q.outstanding()) {
		return "the peer has confirmed a long message that was not sent"
	}
	for q.done != number {
		s.retire(nil)
	}
	c.afterSent()
	return ""
}

// retire completes the oldest long message with err.
func (s *longState) retire(err error) {
	c := s.conn
	q := &s.send
	sent := q.ring[q.done%longWindow]
	q.ring[q.done%longWindow] = longSend{}
	q.done++
	c.countResult(err)
	if sent.use != nil {
		sent.use.end()
		q.uses.end(sent.more)
	}
	if sent.buffer != nil {
		sent.buffer.recycle()
	}
	if sent.report == reportAlways || sent.report == reportFailure && err != nil {
		c.loop.onCompletion(c, sent.op, err)
	}
}
