package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// Send sends a copy of b, at most Config.MaxMessage bytes, which the caller may
// use again at once. It leaves at the end of the turn, together with what else
// is sent on the connection. nil means accepted: the message is delivered, or
// the connection ends with an error.
//
// The errors are ErrWouldBlock, a *verbs.ParamError, ErrClosed once the
// connection is closing, or that of the system if there is no memory. Nothing
// was sent then. Send allocates only when the slab has to grow, or the connection
// was never sent as much in one turn.
func (c *Conn) Send(b []byte) error { return c.SendMsg(b, SendOptions{}) }

// SendMsg is Send with options.
func (c *Conn) SendMsg(b []byte, o SendOptions) error {
	if err := c.checkSend(len(b)); err != nil {
		return err
	}
	if len(b) <= c.maxInline {
		c.sendInline(b, &o)
		return nil
	}
	buf, err := c.device.slab.get()
	if err != nil {
		return verbs.Wrap("send", err)
	}
	buf.length = copy(buf.memory, b)
	c.sendBuffer(buf, &o)
	return nil
}

// SendBuffer sends buf.Bytes without copying. With a nil error the buffer is
// the connection's, and released when the message has been sent; otherwise it
// stays the caller's. The errors are those of Send, and verbs.ErrForeign if the
// buffer is not the caller's or belongs to another loop or device.
func (c *Conn) SendBuffer(buf *Buffer) error { return c.SendBufferMsg(buf, SendOptions{}) }

// SendBufferMsg is SendBuffer with options.
func (c *Conn) SendBufferMsg(buf *Buffer, o SendOptions) error {
	if err := c.checkSend(0); err != nil {
		return err
	}
	if buf == nil || buf.chunk.slab != &c.device.slab || buf.state != bufferLeased {
		return errForeignBuffer
	}
	c.sendBuffer(buf, &o)
	return nil
}

// Flush posts what was sent so far, instead of at the end of the turn.
func (c *Conn) Flush() { c.postSends() }

// admit checks whether an operation of the application's may be accepted.
func (c *Conn) checkSend(size int) error {
	switch {
	case c.state != StateOpen:
		return errSendClosed
	case size > c.loop.cfg.MaxMessage:
		return verbs.Wrap("send", &verbs.ParamError{Field: "message", Value: int64(size), Limit: int64(c.loop.cfg.MaxMessage)})
	case c.flow.full():
		c.flow.writableDue = true
		c.stats.QueueFull++
		c.loop.stats.QueueFull++
		return ErrWouldBlock
	}
	return nil
}

// accept makes room for an operation of the application's. The caller fills in
// the payload.
func (c *Conn) acceptOp(code verbs.Opcode, o *SendOptions, notify bool) (*verbs.SendWR, *sendRequest) {
	c.stats.Accepted++
	c.loop.stats.Accepted++
	c.activeSinceCheck = true
	wr, r := c.stage(code, notify)
	wr.Flags |= o.flags()
	wr.Imm = o.Imm
	r.op.Tag, r.notify = o.Tag, notify
	return wr, r
}

// stage puts a request without payload at the end of the queue.
func (c *Conn) stage(code verbs.Opcode, signal bool) (*verbs.SendWR, *sendRequest) {
	slot, signaled := c.flow.accept(signal)
	wr, r := c.batch.addRequest(), &c.sendRequests[slot]
	wr.ID = uint64(c.key | sendBit | wrID(slot))
	wr.Opcode, wr.Flags = code, 0
	if signaled {
		wr.Flags = verbs.SendSignaled
	}
	wr.SGEs, wr.Inline = nil, nil
	*r = sendRequest{op: Op{Code: code}}
	c.markDirty()
	return wr, r
}

// touch has the connection looked at when the turn ends.
func (c *Conn) markDirty() {
	if !c.dirty {
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

func (o *SendOptions) sendCode() verbs.Opcode {
	if o.HasImm {
		return verbs.OpSendImm
	}
	return verbs.OpSend
}

// sendInline lets the request carry the message itself.
func (c *Conn) sendInline(b []byte, o *SendOptions) {
	wr, r := c.acceptOp(o.sendCode(), o, o.Notify)
	r.op.Bytes = uint32(len(b))
	if len(b) == 0 {
		return
	}
	wr.Inline = c.batch.copyBytes(b)
	wr.Flags |= verbs.SendInline
}

func (c *Conn) sendBuffer(b *Buffer, o *SendOptions) {
	wr, r := c.acceptOp(o.sendCode(), o, o.Notify)
	r.op.Bytes, r.buffer = uint32(b.length), b
	b.state = bufferSending
	if b.length > 0 {
		wr.SGEs = c.batch.sgeList(verbs.SGE{Addr: b.sge[0].Addr, Length: uint32(b.length), LKey: b.sge[0].LKey})
	}
}

// post posts what the turn has left: first sends, which somebody waits for. Half
// of the receive buffers at least are posted already: see repost.
func (c *Conn) post() {
	c.postSends()
	c.postRecvs()
}

func (c *Conn) postSends() {
	if c.flow.staged() == 0 {
		return
	}
	n, err := c.batch.post(c.qp)
	c.flow.posted += uint32(n)
	c.loop.stats.SendDoorbells++
	c.loop.stats.SendRequests += uint64(n)
	if err != nil {
		c.beginClose(err)
	}
}

// sent ends the request in slot, and those before it: a completion retires
// them all, for they are carried out in order and a failure always has a
// completion of its own (IBTA vol. 1, 10.8.6).
func (c *Conn) sendCompleted(wc *verbs.WC, slot uint32) {
	n := c.flow.covers(slot)
	if n == 0 {
		c.beginClose(verbs.Wrap("poll CQ", verbs.ErrProtocol))
		return
	}
	c.lastFromPeer = c.loop.clock.now
	for range n - 1 {
		c.retire(nil)
	}
	if wc.Status == verbs.StatusSuccess {
		c.retire(nil)
	} else {
		keepalive := c.sendRequests[slot].probe && c.state == StateOpen
		c.retire(c.fail(wc, keepalive))
	}
	c.afterSent()
}

// retire ends the oldest request. A callback sees its place free.
func (c *Conn) retire(err error) {
	r := &c.sendRequests[c.flow.retire()]
	if r.probe {
		c.flow.probes--
		return
	}
	c.countResult(err)
	op, notify := r.op, r.notify
	if b := r.buffer; b != nil {
		r.buffer = nil
		if op.Code.Atomic() {
			op.Value = b.word()
		}
		b.recycle()
	}
	if notify {
		c.loop.onCompletion(c, op, err)
	}
}

func (c *Conn) countResult(err error) {
	if err == nil {
		c.stats.Confirmed++
		c.loop.stats.Confirmed++
		return
	}
	c.stats.Failed++
	c.loop.stats.Failed++
}

// afterSent is what room in the send queue is good for.
func (c *Conn) afterSent() {
	switch {
	case c.state != StateOpen:
		c.scheduleAdvance()
	case c.flow.writable():
		c.loop.onWritable(c)
	}
}
