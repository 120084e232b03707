package reactor

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Buffer is a piece of registered memory outside the Go heap. It belongs to one loop,
// and its size is Config.MaxMessage bytes. There are two ways to get a Buffer. Lease
// returns an empty Buffer, for sending without copying. Message.Keep returns the Buffer
// of a received message. In both cases the application owns the Buffer until it calls
// Release, or until SendBuffer has accepted the Buffer. The methods of a Buffer may be
// called only on the goroutine of its loop; the bytes may be used on any goroutine. The
// memory is unmapped when the loop ends: see Handler.OnShutdown.
type Buffer struct {
	chunk  *chunk       // chunk to which the buffer belongs
	memory []byte       // nil once the memory was returned to the system
	length int          // length of the message in bytes, at most len(memory)
	sge    [1]verbs.SGE // scatter/gather element for the whole memory

	// The next three fields are the immediate data, the flags and the opcode of the
	// completion of the received message.
	imm    uint32
	flags  verbs.WCFlags
	opcode verbs.WCOpcode

	state bufferState
	index uint32  // index in slab.all
	next  *Buffer // next buffer in a free list or a bufferList
	// The next two fields are used in Loop.inlineBuffer only. The field kept is the copy of
	// the message that Keep has returned, or nil. The field serial is the number of messages
	// that inlineBuffer has described, modulo 2^32.
	kept   *Buffer
	serial uint32
	// refillFor is a connection whose receive queue has one buffer too few because the
	// application keeps this buffer and there was no memory for another one. Release
	// puts the buffer into that receive queue. refillFor is nil if no connection lacks
	// this buffer.
	refillFor *Conn
}

// A bufferState says who uses a buffer, or where the buffer waits.
type bufferState uint8

const (
	bufferFree      bufferState = iota // the buffer is in the free list of its chunk
	bufferLeased                       // the application has the buffer
	bufferPosted                       // the buffer is in a receive queue, or staged for one
	bufferHeld                         // the buffer has a message that waits for OnOpen
	bufferDelivered                    // the buffer was passed to OnMessage, which has not returned yet
	bufferSending                      // the buffer is in a send queue
)

// Bytes returns the received message. After SetLen(n) it returns the first n bytes of
// the memory. The capacity of the slice is Cap, so the built-in function append writes
// into the registered memory until the length of the slice reaches Cap. append does not
// change the length of the buffer: call SetLen afterwards.
func (b *Buffer) Bytes() []byte { return b.memory[:b.length] }

// Cap returns the size of the memory in bytes.
func (b *Buffer) Cap() int { return len(b.memory) }

// SetLen sets the length of the buffer to n bytes. This is the length of Bytes, and of
// the message that SendBuffer sends. The error is a *verbs.ParamError if n is negative
// or more than Cap.
func (b *Buffer) SetLen(n int) error {
	if err := checkRange("buffer length", n, 0, len(b.memory)); err != nil {
		return operr.Wrap("set length", err)
	}
	b.length = n
	return nil
}

// Release returns the buffer to the loop. The caller must not use its bytes afterwards,
// because the loop may unmap them. Release returns an error that matches verbs.ErrState
// if the buffer does not belong to the application.
func (b *Buffer) Release() error {
	if b.state != bufferLeased {
		return operr.Wrap("release buffer", verbs.ErrState)
	}
	b.recycle()
	return nil
}

// recycle puts the buffer into the receive queue of the connection in the field
// refillFor, or into the slab if refillFor is nil.
func (b *Buffer) recycle() {
	if c := b.refillFor; c != nil {
		b.refillFor = nil
		c.repost(b)
		return
	}
	b.chunk.slab.put(b)
}

// setMessage is called when a message was received into the buffer. It stores the
// length, the immediate data, the flags and the opcode of the completion wc. The length
// comes from the device, so setMessage limits it to the size of the memory.
func (b *Buffer) setMessage(wc *verbs.WC) {
	b.length = 0
	if wc.Opcode == verbs.WCRecv {
		b.length = int(min(uint64(wc.ByteLen), uint64(len(b.memory))))
	}
	b.imm, b.flags, b.opcode = wc.Imm, wc.Flags, wc.Opcode
}

// wordSize is the size of the operand of an atomic operation in bytes.
const wordSize = 8

// word returns the result of an atomic operation. The device stores the result in the
// first 8 bytes of the buffer, in host byte order.
func (b *Buffer) word() uint64 { return binary.NativeEndian.Uint64(b.memory) }

// A Message is one received message. It is valid until OnMessage returns.
type Message struct {
	conn   *Conn
	buffer *Buffer
	serial uint32 // value of buffer.serial when the message was received
}

// Data returns the bytes of the message, which are memory of the loop. The handler may
// read and change them until OnMessage returns. Data is empty for a WRITE with immediate.
func (m Message) Data() []byte { return m.buffer.Bytes() }

// Imm returns the immediate data of the message. If the message has none, the second
// result is false.
func (m Message) Imm() (imm uint32, ok bool) {
	return m.buffer.imm, m.buffer.flags&verbs.WCWithImm != 0
}

// IsWriteImm reports whether the message announces a WRITE with immediate. The bytes of
// the WRITE are at the address that the peer has specified; Data is empty.
func (m Message) IsWriteImm() bool { return m.buffer.opcode == verbs.WCRecvWriteImm }

// Keep gives a buffer with the message to the caller, who may use the buffer after
// OnMessage has returned. The caller must later pass the buffer to SendBuffer or call
// Buffer.Release. A second call of Keep for the same message returns the same buffer.
// After OnMessage has returned, Keep returns nil.
//
// Usually nothing is copied: the buffer is the one in which the message was received,
// and in the receive queue another buffer takes its place. If there is no memory for
// another buffer, the receive queue has one buffer less until the caller releases the
// kept buffer.
//
// Some devices receive small messages without a buffer (verbs.InlinePoller). Keep copies
// such a message to a buffer, and Data then returns the bytes of this buffer. If there is
// no memory for a buffer, Keep returns nil.
func (m Message) Keep() *Buffer {
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
	}
	m.conn.replace(b)
	b.state = bufferLeased
	return b
}

// keepInline implements Message.Keep for a message that was received without a buffer. It
// copies the message to a buffer. Data returns the bytes of this copy from then on.
func (c *Conn) keepInline() *Buffer {
	b := &c.loop.inlineBuffer
	kept, err := c.device.slab.copyOf(b)
	if err != nil {
		return nil
	}
	b.memory, b.kept = kept.memory, kept
	return kept
}

// A bufferList is a FIFO list of buffers. The zero value is empty.
type bufferList struct{ head, tail *Buffer }

// push adds a buffer.
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
