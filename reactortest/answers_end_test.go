//go:build linux

package reactortest_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An end is one side of a connection. It is the handler of its connection, checks each
// callback, and passes it to its user.
type end struct {
	reactor.BaseHandler
	a    *answers
	in   *instance // engine of this side
	name string
	user user
	peer *end // the other side; nil until its OnOpen
	conn *reactor.Conn

	state   endState
	cause   error // argument of Abort, or nil
	err     error // argument of OnClose or OnDialError
	blocked bool  // a send was refused with ErrWouldBlock, and OnWritable was not called yet
	byUser  bool  // this side has closed or stopped before OnClose
	limited bool  // the connection has a deadline or an idle timeout

	sent   []message // messages that were accepted, in order
	got    int       // number of messages passed to OnMessage
	ops    []operation
	last   int  // number of operations up to the last one that OnCompletion has reported
	failed bool // OnCompletion has reported an error
	// number of operations that were confirmed before OnClose
	confirmed int
}

// An endState is a state of an end.
type endState uint8

const (
	endOpening endState = iota
	endOpen
	endClosing // this side has called Close or Abort
	endClosed  // OnClose was called
	endFailed  // OnDialError or OnAcceptError was called
)

func (s endState) String() string {
	return [...]string{"opening", "open", "closing", "closed", "failed"}[s]
}

// A user does something with a connection.
type user interface {
	opened()
	received(got reactor.Message, sent *message)
	writable()
	closed()
}

// A message is a message that was sent. Its bytes are a part of the pattern.
type message struct {
	at      int // offset in the pattern
	length  int
	imm     uint32
	hasImm  bool
	onlyImm bool // the message is a WRITE with immediate data
	// The sender has written data to the receiver's memory before.
	written slot
	time    time.Duration // when it was sent
}

// An operation is an operation that was accepted.
type operation struct {
	message   bool          // message of Send and the like, or WRITE with immediate data
	long      bool          // long message, whose completion may be late
	reported  bool          // OnCompletion must be called
	time      time.Duration // when it was accepted
	completed bool          // OnCompletion was called
	bytes     int
	done      func(op reactor.Op, err error) // what else OnCompletion does; may be nil
}

// expect reports the fault of the library that is described by the format, unless ok is true.
func (e *end) expect(ok bool, format string, args ...any) bool {
	if !ok {
		e.a.failf("%s: %s", e.name, fmt.Sprintf(format, args...))
	}
	return ok
}

// mayCall checks that a callback may be called now.
func (e *end) mayCall(callback string, states ...endState) bool {
	e.expect(!e.in.killed, "%s after the process was killed", callback)
	for _, s := range states {
		if s == e.state {
			return true
		}
	}
	return e.expect(false, "%s while the connection is %v", callback, e.state)
}

// OnOpen implements reactor.Handler.
func (e *end) OnOpen(c *reactor.Conn) {
	if e.mayCall("OnOpen", endOpening) {
		e.conn, e.state = c, endOpen
		e.user.opened()
	}
}

// OnDialError implements reactor.Handler.
func (e *end) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	e.failToOpen("OnDialError", err)
}

func (e *end) failToOpen(callback string, err error) {
	if e.mayCall(callback, endOpening) {
		e.state, e.err = endFailed, err
		e.expect(err != nil, "%s without an error", callback)
		e.user.closed()
	}
}

// OnMessage implements reactor.Handler.
func (e *end) OnMessage(_ *reactor.Conn, m reactor.Message) {
	if !e.mayCall("OnMessage", endOpen) || !e.expect(e.got < len(e.peer.sent), "message %d was not sent", e.got) {
		return
	}
	sent := &e.peer.sent[e.got]
	imm, hasImm := m.Imm()
	e.expect(bytes.Equal(m.Data(), sent.data()), "message %d with %d bytes has arrived with %d, or with others", e.got, sent.length, len(m.Data()))
	e.expect(hasImm == sent.hasImm && imm == sent.imm, "message %d has immediate data %v %v, not %v %v", e.got, hasImm, imm, sent.hasImm, sent.imm)
	e.expect(m.IsWriteImm() == sent.onlyImm, "message %d: IsWriteImm returns %v", e.got, m.IsWriteImm())
	e.got++
	e.user.received(m, sent)
}

// OnCompletion implements reactor.Handler.
func (e *end) OnCompletion(_ *reactor.Conn, op reactor.Op, err error) {
	n := int(op.Tag)
	if !e.mayCall("OnCompletion", endOpen, endClosing) || !e.expect(n > 0 && n <= len(e.ops), "OnCompletion of operation %d", n) {
		return
	}
	o := &e.ops[n-1]
	e.expect(o.reported, "OnCompletion of operation %d, which was not to be reported", n)
	e.expect(!o.completed, "second OnCompletion of operation %d", n)
	e.expect(o.long || e.a.w.Now()-o.time < operationLimit || e.in.node.paused > o.time, "OnCompletion of operation %d after %v", n, e.a.w.Now()-o.time)
	e.expect(int(op.Bytes) == o.bytes, "operation %d has %d bytes instead of %d", n, op.Bytes, o.bytes)
	if !o.long {
		e.expect(n > e.last, "OnCompletion of operation %d after that of %d", n, e.last)
		e.expect(err != nil || !e.failed, "operation %d has succeeded after the failure of another one", n)
		e.last, e.failed = n, err != nil
	}
	o.completed = true
	if o.done != nil {
		o.done(op, err)
	}
	if e.state == endOpen && e.a.closes(8) {
		e.close()
	}
}

// OnWritable implements reactor.Handler.
func (e *end) OnWritable(*reactor.Conn) {
	if !e.mayCall("OnWritable", endOpen) {
		return
	}
	e.expect(e.blocked, "OnWritable, but no send was refused")
	if e.a.maxLong == 0 {
		e.expect(e.conn.Stats().InFlight <= e.conn.Info().MaxInFlight/2, "OnWritable with %d operations in flight", e.conn.Stats().InFlight)
	}
	e.blocked = false
	e.user.writable()
}

// OnClose implements reactor.Handler.
func (e *end) OnClose(c *reactor.Conn, err error) {
	if !e.mayCall("OnClose", endOpen, endClosing) {
		return
	}
	e.byUser = e.state == endClosing || e.in.stopped
	e.state, e.err = endClosed, err
	s := c.Stats()
	e.confirmed = int(s.Confirmed)
	e.expect(int(s.Accepted) == len(e.ops), "%d operations accepted, Stats has %d", len(e.ops), s.Accepted)
	e.expect(s.Confirmed+s.Failed == s.Accepted, "Stats: %+v", s)
	e.expect(int(s.Messages) == e.got, "%d messages received, Stats has %d", e.got, s.Messages)
	for i := range e.ops {
		o := &e.ops[i]
		e.expect(o.completed || !o.reported, "no OnCompletion of operation %d", i+1)
	}
	switch {
	case err == nil:
		e.expect(e.byUser && e.cause == nil, "nobody has closed this side, but OnClose reports no error")
		e.expect(s.Failed == 0, "%d operations have failed, but OnClose reports no error", s.Failed)
	case e.cause != nil:
		e.expect(errors.Is(err, e.cause), "OnClose after Abort(%v) reports %v", e.cause, err)
	default:
		e.checkReason(err)
	}
	e.user.closed()
}

// checkReason checks that the library may report an error to OnClose.
func (e *end) checkReason(err error) {
	var failed *verbs.CompletionError
	switch {
	case errors.Is(err, reactor.ErrPeerClosed):
	case errors.Is(err, verbs.ErrPeerGone):
		e.expect(e.peer == nil || e.peer.in.killed, "the peer is gone, but lives")
	case errors.Is(err, reactor.ErrTimeout), errors.Is(err, reactor.ErrIdle):
		e.expect(e.limited, "%v", err)
	case errors.Is(err, reactor.ErrShutdown):
		e.expect(e.in.stopped, "%v", err)
	case !e.a.harmed:
		e.expect(false, "without faults: %v", err)
	case errors.Is(err, reactor.ErrDrainTimeout), errors.Is(err, cm.ErrStale), errors.Is(err, reactor.ErrKeepalive):
	case errors.As(err, &failed):
		e.expect(failed.Status == verbs.StatusRetryExcErr || failed.Status == verbs.StatusWRFlushErr, "%v", err)
	default:
		e.expect(false, "%v", err)
	}
}

// close closes the connection, or aborts it.
func (e *end) close() {
	var cause, err error
	if e.a.chance(2) {
		err = e.conn.Close()
	} else {
		cause = errTired
		err = e.conn.Abort(cause)
	}
	// The connection may have ended, and OnClose was not called yet.
	if err == nil {
		e.state, e.cause = endClosing, cause
	}
}

var errTired = errors.New("tired")

// limit sets a timeout or an idle timeout.
func (e *end) limit() {
	e.limited = true
	if d := e.a.upTo(e.a.phase); e.a.chance(2) {
		e.conn.SetTimeout(d)
	} else {
		e.conn.SetIdleTimeout(d / 4)
	}
}

// accepted adds an operation for which the call returned nil.
func (e *end) accepted(o operation) {
	o.time = e.a.w.Now()
	e.ops = append(e.ops, o)
}

// operationLimit is how long an operation may take until it has succeeded or failed, unless
// it is a long message, which waits for the peer to read it. A packet and its repetitions take
// 0.6 s at most.
const operationLimit = 5 * time.Second

// options returns options for the next operation.
func (e *end) options() reactor.OpOptions {
	return reactor.OpOptions{Tag: uint64(len(e.ops) + 1), Fence: e.a.chance(8)}
}

// send sends a message of the given length. Its field written says what was written before.
// It returns false if the message was not accepted.
func (e *end) send(length int, written slot) bool {
	m := message{length: length, at: e.a.rng.IntN(len(pattern) - length), written: written, time: e.a.w.Now()}
	o := e.options()
	if e.a.chance(4) {
		m.imm, m.hasImm = e.a.rng.Uint32(), true
		o.Imm, o.HasImm = m.imm, true
	}
	o.Notify, o.Solicited = e.a.chance(4), e.a.chance(4)
	reported := o.Notify
	var err error
	switch way := e.a.rng.IntN(4); {
	case way == 0 && !m.hasImm && !o.Notify && !o.Solicited:
		err = e.conn.Send(m.data(), nil)
	case way == 1:
		err = e.sendBuffer(&m, o)
	case way == 2 && length > 0:
		reported = true
		err = e.conn.SendV(&o, e.pieces(&m)...)
	default:
		err = e.conn.Send(m.data(), &o)
	}
	if !e.wasAccepted(err) {
		return false
	}
	e.sent = append(e.sent, m)
	e.accepted(operation{message: true, reported: reported, bytes: length, long: length > e.a.maxMessage})
	return true
}

func (e *end) sendBuffer(m *message, o reactor.OpOptions) error {
	b, err := e.conn.Lease(max(1, m.length))
	if err != nil {
		return err
	}
	copy(b.Bytes()[:b.Cap()], m.data())
	if err = b.SetLen(m.length); err == nil {
		err = e.conn.SendBuffer(b, &o)
	}
	if err != nil {
		e.expect(b.Release() == nil, "Release of a buffer that was not sent")
	}
	return err
}

// pieces cuts a message into pieces of the registered pattern.
func (e *end) pieces(m *message) (list []reactor.Piece) {
	for at, end := m.at, m.at+m.length; at < end; {
		n := end - at
		if len(list) < 3 {
			n = 1 + e.a.rng.IntN(n)
		}
		list = append(list, reactor.Piece{Region: e.in.pattern, Offset: at, Length: n})
		at += n
	}
	return list
}

// wasAccepted checks the result of an operation.
func (e *end) wasAccepted(err error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, reactor.ErrWouldBlock):
		e.blocked = true
	case errors.Is(err, reactor.ErrClosed):
	case e.a.noDescriptors:
		if e.conn.Abort(err) == nil {
			e.state, e.cause = endClosing, err
		}
	default:
		e.expect(false, "an operation was refused: %v", err)
	}
	return false
}

// data returns the bytes of a message.
func (m *message) data() []byte {
	if m.onlyImm {
		return nil
	}
	return pattern[m.at:][:m.length]
}
