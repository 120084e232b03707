package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A LongHandler is a ConnHandler that chooses how each long message is received. Without
// these methods every long message is read into a Buffer, and OnMessage gets it whole.
type LongHandler interface {
	ConnHandler
	// OnLongMessage is called when it is the turn of a long message, before its bytes
	// are read. The handler may call Accept, Parts or Discard of m. The parameter m is
	// valid until OnLongMessage returns.
	OnLongMessage(c *Conn, m *LongMessage)
	// OnPart is called for each part of a message for which the handler has called
	// Parts, in order. The handler may use the part until OnPart returns, and longer
	// after Part.Keep. While it keeps as many parts as Config.LongConnBytes allows,
	// no further part is read. So a handler that is slower than the network can keep each
	// part until it has used the part. The memory in use then stays limited.
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
	return m.receive.message.number, m.receive.message.hasImm
}

// Accept makes the message be read into memory of the application. OnMessage gets the
// whole message, and Message.Data is in the Region. Message.Keep then returns nil. The
// memory must not be used before OnMessage. If the connection ends earlier, the memory
// is the caller's again in OnClose.
//
// The piece may be longer than the message. If it is shorter, the error is a
// *verbs.ParamError. Other errors are those of Conn.Read. After an error the handler may
// call another method.
func (m *LongMessage) Accept(into Piece) error {
	const op = "accept long message"
	c, r := m.conn, &m.receive
	switch {
	case r.mode != longWhole || r.posted > 0:
		return operr.Wrap(op, verbs.ErrState)
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

// Parts makes OnPart get the message in parts of at most 256 KiB, instead of a call of
// OnMessage.
func (m *LongMessage) Parts() { m.choose(longParts) }

// Discard makes the message be dropped, without reading it. Its sender does not learn of
// that. Stats.Discarded counts it.
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
func (c *Conn) deliverPart(b *Buffer, offset int) {
	l, r := c.loop, &c.long.receive
	b.imm, b.flags, b.opcode = r.message.number, 0, verbs.WCRecv
	if r.message.hasImm {
		b.flags = verbs.WCWithImm
	}
	c.stats.MessageBytes += uint64(b.length)
	l.stats.MessageBytes += uint64(b.length)
	b.state, l.currentMessage = bufferDelivered, b
	l.onPart(c, Part{Message: Message{conn: c, buffer: b, serial: b.serial}, Offset: offset, Total: r.total})
	l.currentMessage = nil
	if b.state == bufferDelivered {
		c.repost(b)
	}
}
