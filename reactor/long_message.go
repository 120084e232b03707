package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A LongMessage is a message that the peer has announced, and whose bytes are not read yet:
// see Handler.OnLongMessage and OnPart. Only the goroutine of the loop may call the methods.
type LongMessage longState

// Len returns the length of the message in bytes.
func (m *LongMessage) Len() int { return m.receive.total }

// Offset returns the offset in the message, in bytes, of the part that OnPart gets. The part is
// the last one if Offset and its length make Len. In OnLongMessage it is 0.
func (m *LongMessage) Offset() int {
	m.conn.loop.owner.check()
	return m.receive.partAt
}

// Imm returns the immediate data of the message. If the message has none, the second
// result is false.
func (m *LongMessage) Imm() (imm uint32, ok bool) {
	return m.receive.message.Number, m.receive.message.HasImm
}

// Accept makes the loop read the message into memory of the application. OnMessage then
// gets the whole message: Message.Data is a part of the Region, and Message.Keep returns
// nil. The application must not use the memory before OnMessage. If the connection ends
// before OnMessage is called, the application may use the memory from OnClose on.
//
// The piece may be longer than the message. If the piece is shorter, the error is a
// *verbs.ParamError. Other errors are those of Conn.Read. After an error the handler may
// call another method.
func (m *LongMessage) Accept(into Piece) error {
	const op = "accept long message"
	m.conn.loop.owner.check()
	c, r := m.conn, &m.receive
	switch {
	case r.mode != longWhole || r.posted > 0:
		return operr.Wrap(op, stateError("the message is being read, or another method was called for it"))
	case into.Length < r.total:
		return operr.Wrap(op, &verbs.ParamError{Field: "length", Value: int64(into.Length), Limit: int64(r.total), Reason: "shorter than the message"})
	}
	if err := into.check(c, verbs.OpRead); err != nil {
		return operr.Wrap(op, err)
	}
	u := &into.Region.uses[c.loop.index]
	if _, err := u.on(c.device.domain); err != nil {
		return operr.Wrap(op, err)
	}
	u.underWay++
	r.mode, r.piece = longInto, into
	return nil
}

// Parts makes the loop pass the message to OnPart, in parts of at most 256 KiB, and not
// to OnMessage.
func (m *LongMessage) Parts() { m.choose(longParts) }

// Discard makes the loop drop the message without reading it. The operation of the sender
// succeeds all the same. Stats.Discarded counts the message.
func (m *LongMessage) Discard() { m.choose(longDiscarded) }

// choose sets the mode if the message is not being read yet.
func (m *LongMessage) choose(mode longMode) {
	m.conn.loop.owner.check()
	if m.receive.mode == longWhole && m.receive.posted == 0 {
		m.receive.mode = mode
	}
}

// deliverPart passes the part in b to OnPart.
func (s *longState) deliverPart(b *Buffer, offset int) {
	c := s.conn
	l, r := c.loop, &s.receive
	b.imm, b.flags, b.opcode = r.message.Number, 0, verbs.WCRecv
	if r.message.HasImm {
		b.flags = verbs.WCWithImm
	}
	c.setTime(b, 0)
	c.stats.MessageBytes += uint64(b.length)
	l.stats.MessageBytes += uint64(b.length)
	b.state, l.currentMessage = bufferDelivered, b
	r.partAt = offset
	l.onPart(c, Message{conn: c, buffer: b, serial: b.serial})
	r.partAt = 0
	l.currentMessage = nil
	if b.state == bufferDelivered {
		c.repost(b)
	}
}
