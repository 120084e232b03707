package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// A Buffer is a piece of registered memory of one loop: leased with Lease to
// send without copying, or a received message kept with Message.Keep. It has
// Config.MaxMessage bytes, outside the Go heap, and belongs to whoever holds
// it until Release or a successful SendBuffer. Its methods may be called on its
// loop only, except that the holder may use the bytes anywhere. The memory ends
// with the loop: see Handler.OnShutdown.
type Buffer struct {
	chunk  *chunk // chunk that the buffer is cut from
	memory []byte // nil once the memory was given back to the system
	length int
	sge    [1]verbs.SGE // all of memory

	imm    uint32
	flags  verbs.WCFlags // of the message in it
	opcode verbs.WCOpcode

	state bufferState
	index uint32
	next  *Buffer // in a list of its keeper
	// owed is a connection whose receive queue is one short because of this
	// buffer.
	refillFor *Conn
}

// use is who has a buffer.
type bufferState uint8

const (
	bufferFree      bufferState = iota // the slab
	bufferLeased                       // the application
	bufferPosted                       // a receive queue
	bufferHeld                         // a connection that is not open yet, with a message
	bufferDelivered                    // the application, until OnMessage returns
	bufferSending                      // a send queue
)

// Bytes is the message, or the part of the memory that SetLen chose. Its capacity
// is Cap, so that what is appended stays in the memory while there is room.
func (b *Buffer) Bytes() []byte { return b.memory[:b.length] }

// Cap is the size of the memory in bytes.
func (b *Buffer) Cap() int { return len(b.memory) }

// SetLen sets the length of Bytes, and so of the message to be sent, to n
// bytes, at most Cap.
func (b *Buffer) SetLen(n int) error {
	if err := checkRange("buffer length", int64(n), 0, int64(len(b.memory))); err != nil {
		return verbs.Wrap("set length", err)
	}
	b.length = n
	return nil
}

// Release gives the buffer back to the loop. The caller must not use its bytes
// afterwards, because the loop may unmap them. Release returns an error that matches
// verbs.ErrState when the caller does not hold the buffer.
func (b *Buffer) Release() error {
	if b.state != bufferLeased {
		return verbs.Wrap("release buffer", verbs.ErrState)
	}
	b.recycle()
	return nil
}

// recycle brings the buffer to where it is missed.
func (b *Buffer) recycle() {
	if c := b.refillFor; c != nil {
		b.refillFor = nil
		c.repost(b)
		return
	}
	b.chunk.slab.put(b)
}

// fill notes the message that was received into the buffer. Its length is
// checked, for it comes from a device.
func (b *Buffer) setMessage(wc *verbs.WC) {
	b.length = 0
	if wc.Opcode == verbs.WCRecv {
		b.length = int(min(uint64(wc.ByteLen), uint64(len(b.memory))))
	}
	b.imm, b.flags, b.opcode = wc.Imm, wc.Flags, wc.Opcode
}

// A Message is one received message. It is valid until OnMessage returns.
type Message struct {
	conn   *Conn
	buffer *Buffer
}

// Data is the message. It is registered memory of the loop, and the handler's
// until OnMessage returns. A WRITE with immediate has none.
func (m Message) Data() []byte { return m.buffer.Bytes() }

// Imm is the immediate data, if there is any.
func (m Message) Imm() (imm uint32, ok bool) {
	return m.buffer.imm, m.buffer.flags&verbs.WCWithImm != 0
}

// Written reports whether the message is the end of a WRITE with immediate:
// its bytes went where the peer said, and Imm is all there is here.
func (m Message) Written() bool { return m.buffer.opcode == verbs.WCRecvWriteImm }

// Keep makes the message the caller's beyond OnMessage, without copying, and
// returns its buffer, to be sent on or released. Another takes its place in
// the receive queue; if there is no memory for one, the queue stays short until
// Release. Keep returns the same buffer when it is called again, and nil after
// OnMessage has returned.
func (m Message) Keep() *Buffer {
	b := m.buffer
	switch {
	case b.state == bufferLeased && m.conn.loop.currentMessage == b:
		return b
	case b.state != bufferDelivered:
		return nil
	}
	m.conn.replace(b)
	b.state = bufferLeased
	return b
}
