package reactor

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Send sends a copy of b, at most ConnInfo.MaxMessage bytes. The message is posted at the end of
// the loop's turn, or by Flush. If Send returns nil, either the message is confirmed later or the
// connection ends with an error.
//
// The errors:
//
//   - ErrWouldBlock: the send queue is full.
//   - *verbs.ParamError: b is too long, or a message can not have the options o.
//   - ErrClosed: the connection is closing.
//   - syscall.Errno: there is no memory for a buffer.
func (c *Conn) Send(b []byte, o *OpOptions) error {
	if o == nil {
		return c.send(b, &noOptions)
	}
	if err := c.checkMessageOptions(o); err != nil {
		return err
	}
	return c.send(b, o)
}

// checkMessageOptions returns an error if Send or SendBuffer can not have the options o.
func (c *Conn) checkMessageOptions(o *OpOptions) error {
	if err := o.checkMessage(); err != nil {
		return err
	}
	return c.checkInvalidate(o)
}

// send sends a copy of b with options that were checked.
func (c *Conn) send(b []byte, o *OpOptions) error {
	c.loop.owner.check()
	if c.long != nil || !c.maySend(len(b)) {
		switch long, err := c.checkMessage(len(b), o); {
		case err != nil:
			return err
		case long:
			return c.long.sendCopy(b, o)
		}
	}
	if len(b) <= int(c.sends.maxInline) {
		c.sendInline(b, o)
		return nil
	}
	buf, err := c.copyToBuffer(b)
	if err != nil {
		return err
	}
	c.sendBuffer(buf, o)
	return nil
}

// copyToBuffer returns a buffer with a copy of b, which has at most maxLease bytes.
func (c *Conn) copyToBuffer(b []byte) (*Buffer, error) {
	buf, err := c.device.leaseSize(len(b))
	if err != nil {
		return nil, operr.Wrap("send", err)
	}
	buf.length = copy(buf.memory, b)
	return buf, nil
}

// SendBuffer sends buf.Bytes without copying. If SendBuffer returns nil, the connection
// releases the buffer when the message is confirmed. After an error the buffer still
// belongs to the caller.
//
// The errors are those of Send, and verbs.ErrForeign for a buffer of another owner, loop
// or device.
func (c *Conn) SendBuffer(buf *Buffer, o *OpOptions) error {
	c.loop.owner.check()
	o = o.orNone()
	if err := c.checkMessageOptions(o); err != nil {
		return err
	}
	if buf == nil || !c.device.pool.Owns(buf.slot) || buf.state != bufferLeased {
		return errForeignBuffer
	}
	if buf.shownTo != nil && buf.shownTo != c.long {
		return c.sendCopyOf(buf, o)
	}
	long, err := c.checkMessage(buf.length, o)
	switch {
	case err != nil:
		return err
	case long:
		return c.long.sendBuffer(buf, o)
	}
	c.sendBuffer(buf, o)
	return nil
}

// sendCopyOf sends a copy of the message in b. It is for a buffer whose remote key was
// sent to the peer of another connection, because that peer can read the buffer. After
// an error b still belongs to the caller.
func (c *Conn) sendCopyOf(b *Buffer, o *OpOptions) error {
	if err := c.send(b.Bytes(), o); err != nil {
		return err
	}
	b.recycle()
	return nil
}

// Flush posts the accepted messages and operations at once, instead of at the end of the
// turn. If posting fails, the connection ends, and OnClose gets the error. With the
// option ImmediatesOnly, the receives are posted first: see DialOptions.
func (c *Conn) Flush() {
	c.loop.owner.check()
	if c.immediatesOnly {
		c.postRecvs()
	}
	c.postSends()
}

// checkMessage returns an error if a message of this size and with the options o can not
// be sent now. The result long is true if it is a long message.
func (c *Conn) checkMessage(size int, o *OpOptions) (long bool, err error) {
	if c.long != nil {
		return c.long.check(size, o)
	}
	return false, c.checkSend(size)
}

// maySend reports whether an operation with a message of this size can begin. Otherwise
// checkSend returns the reason.
func (c *Conn) maySend(size int) bool {
	return c.state == stateOpen && size <= c.loop.cfg.MaxMessage && !c.sends.flow.full()
}

// checkSend returns an error if an operation with a message of this size can not begin.
func (c *Conn) checkSend(size int) error {
	switch {
	case c.state != stateOpen:
		return errSendClosed
	case size > c.loop.cfg.MaxMessage:
		return c.tooLong(size)
	case c.sends.flow.full():
		return c.wouldBlock()
	}
	return nil
}

// tooLong returns the error for a message of so many bytes.
func (c *Conn) tooLong(size int) error {
	cfg := c.loop.cfg
	reason := fmt.Sprintf("Config.MaxMessage is %d", cfg.MaxMessage)
	switch {
	case c.immediatesOnly:
		reason += ", and a connection with ImmediatesOnly has no long messages"
	case cfg.MaxLongMessage > 0:
		reason += ", and the peer takes no long messages: it has not set Config.MaxLongMessage, or has set ImmediatesOnly"
	default:
		reason += ", and longer messages need Config.MaxLongMessage on both sides"
	}
	return operr.Wrap("send", &verbs.ParamError{Field: "message", Value: int64(size), Limit: int64(cfg.MaxMessage), Reason: reason})
}

// checkInvalidate returns a *verbs.FeatureError if a message invalidates a key, and the
// device can not send such messages.
func (c *Conn) checkInvalidate(o *OpOptions) error {
	if o.Invalidate == 0 || c.state != stateOpen {
		return nil
	}
	return operr.Wrap("send", c.device.checkWindows())
}

// CheckRoom returns nil if the send queue has room for n operations: the next n calls that
// send, write or read do not return ErrWouldBlock. A long message may only be the last one of
// them. A program asks before it begins operations that belong together, such as a WRITE and
// the message that reports it:
//
//	if err := c.CheckRoom(2); err != nil {
//		... // keep the answer until OnWritable, if the error is ErrWouldBlock
//	}
//
// After ErrWouldBlock, OnWritable is called when there is room for n operations. ErrClosed
// means that the connection is closing. If n is less than 1 or more than
// Config.MaxInFlight, the error is a *verbs.ParamError.
func (c *Conn) CheckRoom(n int) error {
	c.loop.owner.check()
	if err := operr.CheckRange("operations", n, 1, c.loop.cfg.MaxInFlight); err != nil {
		return operr.Wrap("check room", err)
	}
	switch {
	case c.state != stateOpen:
		return errSendClosed
	case c.sends.flow.room() < uint32(n) || c.longWindowLacks(n):
		return c.lacksRoom(n)
	}
	return nil
}

// wouldBlock counts a refused operation and returns its error. OnWritable must follow.
func (c *Conn) wouldBlock() error { return c.lacksRoom(1) }

// lacksRoom is wouldBlock for n operations at once.
func (c *Conn) lacksRoom(n int) error {
	f := &c.sends.flow
	f.wanted = max(f.wanted, uint32(n))
	if f.stuck() {
		c.confirmQuiet()
	}
	c.stats.QueueFull++
	c.loop.stats.QueueFull++
	return ErrWouldBlock
}

// acceptOp accepts an operation and stages it. The caller sets the payload.
func (c *Conn) acceptOp(code verbs.Opcode, o *OpOptions, report reportWhen) (*verbs.SendWR, *sendRequest) {
	slot, signaled := c.sends.flow.next(report == reportAlways)
	wr := c.sends.batch.addRequest(c.requestID(slot), code, o.flags(signaled))
	wr.Imm, wr.RKey = o.Imm, o.Invalidate
	r := c.accept(slot, signaled)
	*r = sendRequest{code: code, tag: o.Tag, report: report}
	if isMessage(code) {
		c.sends.messages++
	}
	return wr, r
}

// sendInline sends a message whose bytes are copied: into the device at once, if the device
// accepts that and no request is staged, and else into a staged request. The doorbell
// follows at the end of the turn.
func (c *Conn) sendInline(b []byte, o *OpOptions) {
	q := &c.sends
	if o.HasImm || o.Invalidate != 0 || q.flow.staged() != 0 {
		c.stageInline(b, o)
		return
	}
	slot, signaled := q.flow.next(o.Notify)
	if !c.qp.SendInline(c.requestID(slot), o.flags(signaled), b) {
		c.stageInline(b, o)
		return
	}
	r := c.accept(slot, signaled)
	q.flow.posted++
	q.messages++
	q.unrung++
	if o.Notify {
		*r = sendRequest{code: verbs.OpSend, tag: o.Tag, bytes: uint32(len(b)), report: reportAlways}
	} else {
		r.kind = requestPlain
	}
}

// accept takes the place that sendFlow.next has returned, for an operation of the
// application, and counts the operation. The caller sets the fields of the result.
func (c *Conn) accept(slot uint32, signaled bool) *sendRequest {
	c.stats.Accepted++
	c.loop.stats.Accepted++
	c.markDirty()
	r := c.sends.requests.add(&c.sends.flow, slot)
	c.sends.flow.accepted(signaled)
	return r
}

// stage adds a signaled request of the library, without payload, to the send queue.
func (c *Conn) stage(code verbs.Opcode) (*verbs.SendWR, *sendRequest) {
	slot, _ := c.sends.flow.next(true)
	c.markDirty()
	return c.sends.stage(c.requestID(slot), slot, code)
}

// requestID returns the id of the send request in a slot.
func (c *Conn) requestID(slot uint32) uint64 { return uint64(c.key | connBit | wrID(slot)) }

// markDirty adds the connection to Loop.dirty, so that the next postStaged posts its
// requests.
func (c *Conn) markDirty() {
	if !c.dirty {
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

// stageInline stages a message whose bytes are copied into the request.
func (c *Conn) stageInline(b []byte, o *OpOptions) {
	wr, r := c.acceptOp(o.sendCode(), o, o.reportMessage())
	c.sends.setInline(wr, r, b)
}

// sendBuffer stages a message that is in b.
func (c *Conn) sendBuffer(b *Buffer, o *OpOptions) {
	wr, r := c.acceptOp(o.sendCode(), o, o.reportMessage())
	c.sends.setBuffer(wr, r, b)
}

// post posts the staged requests: sends first, because the peer waits for them. With the
// option ImmediatesOnly the receives are first, because a protocol with such connections
// tells the peer in its sends how many receives are posted.
func (c *Conn) post() {
	if c.immediatesOnly {
		c.postRecvs()
		c.postSends()
		return
	}
	c.postSends()
	c.postRecvs()
}

// postSends posts the staged send requests, or rings the doorbell for requests that the
// device has already.
func (c *Conn) postSends() {
	doorbells, requests, err := c.sends.post(c.qp)
	c.loop.stats.SendDoorbells += doorbells
	c.loop.stats.SendRequests += requests
	if err != nil {
		c.endWith(err)
	}
}

// sendCompleted handles the completion of the send in this slot. It also confirms all
// earlier sends, because failed sends always have completions (IBTA vol. 1, 10.8.6).
func (c *Conn) sendCompleted(wc *verbs.WC, slot uint32) {
	n := c.sends.flow.covers(slot)
	if n == 0 {
		c.endWith(errUnknownCompletion)
		return
	}
	for range n - 1 {
		c.retire(nil)
	}
	if wc.Status == verbs.StatusSuccess {
		c.sends.confirmedAt = c.loop.clock.now
		c.retire(nil)
	} else {
		kind := c.sends.requests.at(slot).kind
		if kind == requestLongRead {
			c.long.readFailed(wc)
		}
		c.retire(c.fail(wc, kind == requestProbe && c.state == stateOpen))
	}
	c.afterSent()
}

// retire completes the oldest request with err. It frees the slot before it calls
// OnCompletion, so that OnCompletion can send.
func (c *Conn) retire(err error) {
	r := c.sends.requests.at(c.sends.flow.retire())
	switch r.kind {
	case requestPlain:
		c.countResult(err)
		return
	case requestProbe:
		c.sends.flow.probes--
		c.times.liveness.probeCompleted()
		c.startKeepalive()
		if c.loop.closingUses > 0 {
			c.confirmQuiet()
		}
		return
	case requestAnnouncement, requestControl, requestLongRead:
		c.long.retireInternal(r, err)
		return
	}
	c.countResult(err)
	op, notify := r.op(), r.reports(err)
	if r.kind == requestWindow {
		c.loop.recordError(c.sends.windows.requestDone(r.code, r.bytes, err))
	}
	c.sends.endUses(r)
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

// countResult counts a completed operation as failed if err is not nil, and else as
// confirmed.
func (c *Conn) countResult(err error) {
	if err == nil {
		c.stats.Confirmed++
		c.loop.stats.Confirmed++
		return
	}
	c.stats.Failed++
	c.loop.stats.Failed++
}

// afterSent is called when the send queue has free places. It schedules the next step of
// a closing connection, or calls OnWritable.
func (c *Conn) afterSent() {
	switch {
	case c.state != stateOpen:
		c.scheduleStep()
	case c.longWindowLacks(int(c.sends.flow.wanted)):
	case c.sends.flow.writable():
		c.loop.onWritable(c)
	case c.sends.flow.stuck():
		c.confirmQuiet()
	}
}

// sendCode returns the opcode of a SEND with these options.
func (o *OpOptions) sendCode() verbs.Opcode {
	switch {
	case o.HasImm:
		return verbs.OpSendImm
	case o.Invalidate != 0:
		return verbs.OpSendInv
	}
	return verbs.OpSend
}

// writeCode returns the opcode of a WRITE with these options.
func (o *OpOptions) writeCode() verbs.Opcode {
	if o.HasImm {
		return verbs.OpWriteImm
	}
	return verbs.OpWrite
}

// flags returns the flags of a send request for the options Solicited and Fence.
func (o *OpOptions) flags(signaled bool) verbs.SendFlags {
	var f verbs.SendFlags
	if signaled {
		f = verbs.SendSignaled
	}
	if o.Solicited {
		f |= verbs.SendSolicited
	}
	if o.Fence {
		f |= verbs.SendFence
	}
	return f
}

// A reportWhen says for which results of a send request OnCompletion is called.
type reportWhen uint8

const (
	reportNever   reportWhen = iota // for no result; OnClose reports a failure
	reportFailure                   // for a failure
	reportAlways                    // for success and for a failure
)

// reportMessage returns the reportWhen of a message that was copied or is in a Buffer.
func (o *OpOptions) reportMessage() reportWhen {
	if o.Notify {
		return reportAlways
	}
	return reportNever
}

// reportOp returns the reportWhen of an operation that is no message; see reportMessage.
func (o *OpOptions) reportOp() reportWhen {
	if o.Quiet {
		return reportFailure
	}
	return reportAlways
}

// isSend reports whether an operation is a SEND.
func isSend(code verbs.Opcode) bool {
	return code == verbs.OpSend || code == verbs.OpSendImm || code == verbs.OpSendInv
}

// isMessage reports whether the operation causes a call of OnMessage at the peer.
func isMessage(code verbs.Opcode) bool {
	return isSend(code) || code == verbs.OpWriteImm
}
