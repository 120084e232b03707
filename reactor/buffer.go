package reactor

import (
	"encoding/binary"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor/internal/slab"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Buffer is registered memory outside the Go heap, of Config.MaxMessage bytes or more.
// Conn.Lease returns an empty Buffer for sending. Message.Keep returns a Buffer with a received
// message. The application owns the Buffer until Release, or until SendBuffer accepts the
// Buffer.
//
// Only the goroutine of the Buffer's loop may call the methods. Any goroutine may use
// the bytes. When the loop ends, the memory is unmapped, and a later use of the bytes is a
// fault: see Config.OnShutdown.
type Buffer struct {
	loop   *Loop              // loop that has the pool of the slot; nil without a slot
	slot   *slab.Slot[Buffer] // slot of the pool that has this buffer; nil if the memory is no slot
	memory []byte             // memory of the buffer; nil after it was returned to the system
	length int                // length of the message in bytes, at most len(memory)
	sge    [1]verbs.SGE       // scatter/gather element for the whole memory

	imm    uint32         // immediate data or invalidated key in the completion of the message
	flags  verbs.WCFlags  // flags in the completion of the message
	opcode verbs.WCOpcode // opcode in the completion of the message
	time   int64          // Message.Time in nanoseconds since 1970; valid if Conn.messageTime is true

	state bufferState
	// detached is true if the buffer belongs to no receive queue any more, or never did.
	detached     bool
	announcement bool   // true if the message announces a long message
	serial       uint32 // number of messages that were received inline, modulo 2^32

	next *Buffer // next buffer in a bufferList
	// kept is the copy that Message.Keep has made of the present message, or nil. The
	// fields kept and serial change in Loop.inlineBuffer only.
	kept *Buffer
	// Connection whose receive queue lacks this buffer, or nil. Release returns the
	// buffer to that queue.
	refillFor *Conn

	charged *longState // connection whose longMemory counts the buffer, or nil
	shownTo *longState // connection whose peer knows the remote key of the buffer, or nil
}

// attachBuffer gives the memory of a new slot to its buffer.
func (l *Loop) attachBuffer(t *slab.Slot[Buffer], memory []byte, sge verbs.SGE) {
	b := &t.Buffer
	b.loop, b.slot, b.memory, b.sge[0] = l, t, memory, sge
}

// detachBuffer takes the memory from a buffer, so that a program that uses the Buffer after
// Release can not access memory that was returned to the system.
func detachBuffer(b *Buffer) { b.memory, b.length, b.next = nil, 0, nil }

// leased marks a buffer that was taken from the pool.
func leased(t *slab.Slot[Buffer], err error) (*Buffer, error) {
	if err != nil {
		return nil, err
	}
	b := &t.Buffer
	b.state = bufferLeased
	return b, nil
}

// free returns the buffer to the pool.
func (b *Buffer) free() {
	b.state, b.refillFor, b.detached = bufferFree, nil, false
	b.slot.Put()
}

// A bufferState says who uses a buffer, or where the buffer waits.
type bufferState uint8

const (
	bufferFree      bufferState = iota // the buffer is free, or in shownBuffers
	bufferLeased                       // the application has the buffer
	bufferPosted                       // the buffer is in a receive queue, or staged for one
	bufferHeld                         // the buffer has a message that waits: see opening.held and Conn.hold
	bufferDelivered                    // the buffer was passed to OnMessage, which has not returned yet
	bufferSending                      // the buffer is in a send queue
)

// Bytes returns the received message. After SetLen(n) it returns the first n bytes. An
// append to the result writes into the registered memory, up to Cap bytes. Call SetLen
// after the append.
func (b *Buffer) Bytes() []byte { return b.memory[:b.length] }

// Cap returns the size of the memory in bytes.
func (b *Buffer) Cap() int { return len(b.memory) }

// SetLen sets the length of Bytes, and of the message that SendBuffer sends. If n is
// negative or more than Cap, the error is a *verbs.ParamError.
func (b *Buffer) SetLen(n int) error {
	if err := operr.CheckRange("buffer length", n, 0, len(b.memory)); err != nil {
		return operr.Wrap("set length", err)
	}
	b.length = n
	return nil
}

// Release returns the buffer to the loop. The caller must not use its bytes afterwards,
// because the loop may unmap them. If the application does not own the buffer, the error
// matches verbs.ErrState.
func (b *Buffer) Release() error {
	if b.state != bufferLeased {
		return operr.Wrap("release buffer", stateError("the application does not own the buffer"))
	}
	b.loop.owner.check()
	b.recycle()
	return nil
}

// recycle puts the buffer into the receive queue of refillFor, or else into the pool.
func (b *Buffer) recycle() {
	if c := b.refillFor; c != nil {
		b.refillFor = nil
		c.repost(b)
		return
	}
	if b.charged != nil || b.shownTo != nil {
		b.recycleLong()
		return
	}
	b.free()
}

// setMessage stores the length, immediate data, flags and opcode of a received message.
// It limits the device's length to the size of the memory.
func (b *Buffer) setMessage(wc *verbs.WC) {
	b.length = 0
	if wc.Opcode == verbs.WCRecv {
		b.length = int(min(uint64(wc.ByteLen), uint64(len(b.memory))))
	}
	b.imm, b.flags, b.opcode = wc.Imm, wc.Flags, wc.Opcode
}

// wordSize is the size of the operand of an atomic operation in bytes.
const wordSize = 8

// word returns the result of an atomic operation, the first 8 bytes in host byte order.
func (b *Buffer) word() uint64 { return binary.NativeEndian.Uint64(b.memory) }

// A Message is one received message, or a part of one. It is valid until OnMessage or OnPart
// returns; after that only the Buffer of Keep is. Only the goroutine of the loop may call the
// methods.
type Message struct {
	conn   *Conn
	buffer *Buffer
	serial uint32 // value of Buffer.serial when the message was received
}

// Data returns the bytes of the message. The handler may read and change them until
// OnMessage returns. A WRITE with immediate has no Data.
func (m Message) Data() []byte { return m.buffer.Bytes() }

// Imm returns the immediate data of the message. If the message has none, the second
// result is false.
func (m Message) Imm() (imm uint32, ok bool) {
	return m.buffer.imm, m.buffer.flags&verbs.WCWithImm != 0
}

// Invalidated returns the key that the peer has invalidated with the message: see
// OpOptions.Invalidate. The peer can no longer access the memory for which Conn.Show
// returned this key. If the message invalidated no key, the second result is false.
func (m Message) Invalidated() (key uint32, ok bool) {
	return m.buffer.imm, m.buffer.flags&verbs.WCWithInv != 0
}

// IsWriteImm reports whether the message announces a WRITE with immediate. The peer has
// written the bytes to an address of its choice, so Data is empty.
func (m Message) IsWriteImm() bool { return m.buffer.opcode == verbs.WCRecvWriteImm }

// Time returns when the message has arrived, by the clock CLOCK_REALTIME of this host. That
// clock can be set, and the Time has no monotonic reading. Whether it is the time of arrival or
// the later time of reading depends on the device and the path: see DialOptions.MessageTime.
// Without this option of Dial or Listen it is the zero Time.
func (m Message) Time() time.Time {
	if !m.conn.messageTime {
		return time.Time{}
	}
	return time.Unix(0, m.buffer.time)
}

// Keep lets the application use the message after OnMessage. It returns the buffer with
// the message. The caller must later call SendBuffer or Buffer.Release. A second call
// returns the same buffer. After OnMessage, Keep returns nil.
//
// Some devices deliver small messages without a buffer: see verbs.RecvInline. Keep
// copies such a message, and Data then returns the copy. If there is no memory for the
// copy, Keep returns nil. Other messages are not copied.
func (m Message) Keep() *Buffer {
	m.conn.loop.owner.check()
	b := m.buffer
	switch {
	case m.serial != b.serial:
		return nil
	case b.kept != nil && b.kept.state == bufferLeased:
		return b.kept
	case b.state == bufferLeased && m.conn.loop.currentMessage == b:
		return b
	case b.kept != nil, b.state != bufferDelivered:
		return nil
	case b == &m.conn.loop.inlineBuffer:
		return m.conn.keepInline()
	case b.slot == nil: // The application has given the memory to LongMessage.Accept.
		return nil
	}
	if !b.detached {
		m.conn.replace(b)
	}
	b.state, b.detached = bufferLeased, false
	return b
}

// keepInline implements Message.Keep for a message without a buffer. Data then returns
// the bytes of the copy.
func (c *Conn) keepInline() *Buffer {
	b := &c.loop.inlineBuffer
	kept, err := c.device.copyOf(b)
	if err != nil {
		return nil
	}
	b.memory, b.kept = kept.memory, kept
	return kept
}

// A bufferList is a FIFO list of buffers. The zero value is empty.
type bufferList struct{ head, tail *Buffer }

func (q *bufferList) push(b *Buffer) {
	b.next = nil
	if q.head == nil {
		q.head = b
	} else {
		q.tail.next = b
	}
	q.tail = b
}

// pop removes and returns the oldest buffer, or returns nil if the list is empty.
func (q *bufferList) pop() *Buffer {
	b := q.head
	if b != nil {
		q.head, b.next = b.next, nil
	}
	return b
}
