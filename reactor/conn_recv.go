package reactor

import (
	"github.com/rdmaloop/rdmaloop/verbs"
)

// recvCompleted handles the completion of a receive into b. If b is nil, no posted
// buffer matches, and recvCompleted ends the connection.
func (c *Conn) recvCompleted(wc *verbs.WC, b *Buffer) {
	if b == nil {
		c.endWith(errUnknownCompletion)
		return
	}
	if wc.Status != verbs.StatusSuccess {
		c.fail(wc, false)
		c.repost(b)
		c.scheduleStep()
		return
	}
	c.recvs.lastAt = c.loop.clock.now
	if wc.Flags&verbs.WCWithInv != 0 && !c.sends.windows.givenBack(wc.Imm) {
		c.endWith(errUnknownKey)
		c.repost(b)
		return
	}
	b.setMessage(wc)
	c.setTime(b, wc.Time)
	// A message may arrive before cm.Established on the accepting side. It waits until
	// OnOpen was called.
	if c.state < stateOpen {
		b.state = bufferHeld
		c.opening.held.push(b)
		return
	}
	c.deliver(b)
}

// recvInline handles a small message that was received without a buffer. The parameter
// data has its bytes, and is valid until recvInline returns.
func (c *Conn) recvInline(wc *verbs.WC, data []byte) {
	c.recvs.lastAt = c.loop.clock.now
	b := &c.loop.inlineBuffer
	b.memory, b.length = data, len(data)
	b.imm, b.flags, b.opcode = wc.Imm, wc.Flags, wc.Opcode
	c.setTime(b, wc.Time)
	c.deliver(b)
	b.endInline()
}

// setTime is called for a message that was received. The parameter at is the time of its arrival
// that the device reports, or 0: then it is the time of the turn.
func (c *Conn) setTime(b *Buffer, at int64) {
	if c.wantsTime {
		c.recordTime(b, at)
	}
}

// recordTime sets the Message.Time of a message if the connection has times, and tells the
// latencyRecorder when the message has arrived.
func (c *Conn) recordTime(b *Buffer, at int64) {
	k := &c.loop.clock
	if r := c.loop.latency; r != nil {
		r.received(b, at, k)
	}
	if !c.messageTime {
		return
	}
	if at == 0 {
		at = k.ofTurn()
	}
	b.time = at
}

// endInline makes Message.Keep return nil for the message in Loop.inlineBuffer.
func (b *Buffer) endInline() {
	b.serial++
	b.kept = nil
}

// deliver passes one message to OnMessage, and stages its buffer for posting unless the
// application keeps it. While there is a holdReason, the message waits.
func (c *Conn) deliver(b *Buffer) {
	switch {
	case c.long != nil && c.long.takes(b):
	case c.recvs.hold != noHoldReason:
		c.hold(b)
	default:
		c.deliverNow(b)
	}
}

// deliverNow passes a message to OnMessage without waiting.
func (c *Conn) deliverNow(b *Buffer) {
	l := c.loop
	if c.state != stateOpen && c.discardsMessages() {
		l.stats.Discarded++
		c.repost(b)
		return
	}
	c.stats.Messages++
	c.stats.MessageBytes += uint64(b.length)
	b.state, l.currentMessage = bufferDelivered, b
	l.onMessage(c, b)
	l.currentMessage = nil
	if b.state == bufferDelivered {
		c.repost(b)
	}
}

// discardsMessages reports whether a connection that has left stateOpen discards received
// messages. If it does not, OnMessage gets them.
func (c *Conn) discardsMessages() bool {
	return c.closing.discards && !c.immediatesOnly || c.state >= stateDisconnecting
}

// replace stages another buffer in place of b, which the application keeps. If there is
// no memory, the receive queue lacks a buffer until Buffer.Release stages b again.
func (c *Conn) replace(b *Buffer) {
	fresh, err := c.device.smallBuffer()
	if err != nil {
		b.refillFor = c
		c.loop.stats.Unreplaced++
		c.loop.engine.log.Warn("reactor: no memory for a receive buffer in place of one that the application keeps", "error", err)
		return
	}
	c.repost(fresh)
}

// repost stages b for the receive queue, or frees b if the connection receives no more.
// It posts the staged buffers when they are at least half of the queue's buffers.
func (c *Conn) repost(b *Buffer) {
	switch {
	case b.slot == nil: // b is Loop.inlineBuffer, which is in no queue.
	case b.detached:
		b.detached = false
		b.recycle()
	case c.sharesRecv():
		c.device.stageShared(b)
	case c.state > stateDraining, c.immediatesOnly:
		b.free()
	default:
		c.recvs.own.stage(b)
		c.markDirty()
		if c.recvs.own.staged() >= c.recvs.own.inFlight() {
			c.postRecvs()
		}
	}
}

// postRecvs posts the staged receives.
func (c *Conn) postRecvs() {
	if c.recvs.staged() == 0 || c.state > stateDraining {
		return
	}
	doorbells, err := c.recvs.post(c.qp)
	c.loop.stats.RecvDoorbells += doorbells
	if err != nil {
		c.endWith(err)
	}
}

func (l *Loop) onMessage(c *Conn, b *Buffer) {
	l.stats.Messages++
	l.stats.MessageBytes += uint64(b.length)
	l.callbackStart("OnMessage", c, nil)
	c.handler.OnMessage(c, Message{conn: c, buffer: b, serial: b.serial})
	l.callbackEnd()
}
