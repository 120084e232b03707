package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A LongHandler is a ConnHandler that chooses how each long message is received. If a
// handler does not implement LongHandler, every long message is read into a Buffer, and
// OnMessage gets the whole message.
type LongHandler interface {
	ConnHandler
	// OnLongMessage is called for a long message after all earlier messages were received,
	// and before its bytes are read. The handler may call Accept, Parts or Discard of m. The
	// parameter m is valid until OnLongMessage returns.
	OnLongMessage(c *Conn, m *LongMessage)
	// OnPart is called for each part of a message for which the handler has called
	// LongMessage.Parts. The parts come in order. The handler may use a part until OnPart
	// returns, and longer after Part.Keep. While the kept parts occupy Config.LongConnBytes,
	// no further part is read. So a handler that is slower than the network can keep parts,
	// and the memory in use stays limited.
	OnPart(c *Conn, p Part)
}

// A LongMessage is a message that the peer has announced, and of which no byte was read
// yet.
type LongMessage longState

// Len returns the length of the message in bytes.
func (m *LongMessage) Len() int { return m.receive.total }

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
	if m.receive.mode == longWhole && m.receive.posted == 0 {
		m.receive.mode = mode
	}
}

// A Part is a part of a long message. It is valid until OnPart returns.
type Part struct {
	Message     // bytes of the part; Message.Imm returns the immediate data of the whole message
	Offset  int // offset of the part in the message, in bytes
	Total   int // length of the message in bytes
}

// Last reports whether the part is the last one of its message.
func (p Part) Last() bool { return p.Offset+len(p.Data()) == p.Total }

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
	l.onPart(c, Part{Message: Message{conn: c, buffer: b, serial: b.serial}, Offset: offset, Total: r.total})
	l.currentMessage = nil
	if b.state == bufferDelivered {
		c.repost(b)
	}
}
