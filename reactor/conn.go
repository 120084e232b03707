package reactor

import (
	"context"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Conn is one reliable connection. OnOpen passes the Conn to the application. Only the
// loop's goroutine may use UserData and call the methods, except Info, Loop, Post and PostWait.
// After OnClose, UserData and the methods that return something about the connection can still
// be used. Operations return ErrClosed, and other methods do nothing.
type Conn struct {
	// UserData is a value of the application. Its first value is DialOptions.UserData or
	// AcceptOptions.UserData. The library does not use it.
	UserData any

	loop    *Loop
	handler Handler     // callbacks of the connection
	device  *loopDevice // device of the connection; nil until it is known
	id      *cm.ID      // ID; nil until resolve() (dialing side) or moveID (accepting side) has set it
	qp      verbs.QP    // queue pair; nil until makeQP has set it
	// queue is the CQ of qp. It is nil until the connection has reserved places for its
	// completions.
	queue *completionQueue
	key   wrID // index and generation of the connection; part of the ids of its work requests

	state connState
	dirty bool // true if the connection is in Loop.dirty
	// The options of Listen or Dial with the same names. ownRecvs is true if OwnRecvQueue or
	// ImmediatesOnly is set: then the connection does not use the shared receive queue.
	immediatesOnly bool
	ownRecvs       bool
	messageTime    bool
	// wantsTime is true if messageTime is, or the loop records latencies.
	wantsTime bool

	opening *opening // what is needed to open the connection; nil after OnOpen
	sends   sendQueue
	recvs   recvSide
	closing closing
	long    *longState // state of long messages; nil if the sides have not agreed on them

	stateTimer timerheap.Timer // timer for the time limit of the present state: see connState
	times      connTimes

	info  connInfo
	stats ConnStats
}

// A ConnInfo describes a connection. From OnOpen on it does not change, and it stays valid
// after OnClose.
type ConnInfo struct {
	LocalAddr  netip.AddrPort // address and port of this side
	RemoteAddr netip.AddrPort // address and port of the peer
	QPNum      uint32         // number of this side's queue pair
	Device     verbs.Device   // device of the connection

	// PeerPrivateData is the private data of the peer's connection request or reply. The data
	// may be padded with zeros: see cm.ConnParam. It belongs to the connection.
	PeerPrivateData []byte
	// Credentials are those of the peer's process: see ConnRequest.Credentials. For a dialing
	// side, the peer is the process that listens. Nil means that they are not known, as on the
	// wire path of provider/soft.
	Credentials *cm.Credentials
	// DialOptions is the pointer that was passed to Dial, or a new one if nil was passed. It is
	// nil if the peer has dialed.
	DialOptions *DialOptions

	// MaxInFlight is how many operations of the application may be outstanding: see
	// Config.MaxInFlight.
	MaxInFlight int
	// MaxMessage is the length in bytes of the longest message that this side may send:
	// Config.MaxMessage, or what the peer has set as Config.MaxLongMessage if both sides have
	// set that.
	MaxMessage int
	// The negotiated parameters, as they apply to this side. Source: rdma_connect(3),
	// rdma_accept(3).
	ResponderResources uint8 // number of the peer's READs and atomics that this side executes at a time
	InitiatorDepth     uint8 // number of this side's READs and atomics that can be in flight
	FlowControl        bool  // whether the peer supports end-to-end flow control
	// RetryCount is how often each side repeats a request that was not acknowledged, 0 to
	// 7. The dialing side sets it.
	RetryCount uint8
	// RNRRetryCount is how often this side repeats a message for which the peer has no
	// receive buffer, 0 to 7; 7 means without limit. The peer sets it.
	RNRRetryCount uint8
}

// ConnState is the state of a connection. The comment of package reactor has a diagram of
// the states and their transitions.
type ConnState uint8

// The states of a connection, in the order in which it passes through them. A connection
// may skip states. All states except StateOpen and StateClosed have a time limit.
const (
	// StateDialing: the address and the route of the peer are being resolved.
	StateDialing ConnState = iota
	// StateConnecting: the connection has a queue pair, and this side has sent or accepted
	// the connection request.
	StateConnecting
	// StateOpen: OnOpen was called. The state ends with Close, Abort, a failure or a
	// disconnect of the peer.
	StateOpen
	// StateDraining: this side has called Close, and not all sends are confirmed.
	StateDraining
	// StateClosing: the reason for OnClose is known, and the queues are being flushed.
	StateClosing
	// StateDisconnecting: OnClose was called, and the peer has not disconnected yet.
	StateDisconnecting
	// StateClosed: all resources of the connection are released.
	StateClosed
)

// String returns the name of the state, such as "open".
func (s ConnState) String() string {
	names := [...]string{"dialing", "connecting", "open", "draining", "closing", "disconnecting", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown connection state"
}

// A connInfo has what ConnInfo needs for each connection.
type connInfo struct {
	local       netip.AddrPort
	remote      netip.AddrPort
	peerPrivate []byte
	credentials *cm.Credentials
	dialOptions *DialOptions
	qpNum       uint32
	param       negotiated
}

// negotiated has the fields of ConnInfo with the same names.
type negotiated struct {
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RetryCount         uint8
	RNRRetryCount      uint8
}

// ConnStats are the counters of one connection.
type ConnStats struct {
	Messages     uint64 // messages received and passed to OnMessage, or to OnPart as a whole
	MessageBytes uint64 // bytes of the messages that were passed to OnMessage
	// Accepted counts the operations whose call, such as Send, returned nil. Each is
	// outstanding until it is counted in Confirmed or Failed. One completion may confirm
	// several: see Config.Transport.SignalEvery.
	Accepted  uint64
	Confirmed uint64 // operations that have succeeded
	Failed    uint64 // operations that have failed
	QueueFull uint64 // operations refused with ErrWouldBlock
	// InFlight is how many operations of the application are outstanding now. A long message
	// is outstanding until the peer has read it.
	InFlight int
}

// Post makes the loop of the connection call fn, as Loop.Post does. It is for goroutines that
// compute something for the connection, which may end meanwhile. Any goroutine may call Post,
// also after OnClose: a Conn is never used for another connection.
//
// If err is nil, the connection is open (StateOpen): fn may use it as a callback may. Else err is
// ErrClosed: the connection is not open yet, is closing or has ended, and fn only releases what
// belongs to it. If Post returns nil, fn is called exactly once, on the loop. If Post returns an
// error, which is one of Loop.Post, fn is never called.
func (c *Conn) Post(fn func(err error)) error {
	return c.loop.post("post", func() { c.runPosted(fn) }, false)
}

// PostWait is Post for goroutines that may block: see Loop.PostWait.
func (c *Conn) PostWait(ctx context.Context, fn func(err error)) error {
	return c.loop.postWait(ctx, func() { c.runPosted(fn) })
}

// runPosted calls a function that was passed to Post. If it panics, the connection ends.
func (c *Conn) runPosted(fn func(err error)) {
	l, err := c.loop, ErrClosed
	if c.state == stateOpen {
		l.calling, err = c, nil
	}
	l.functionStart("Post")
	fn(err)
	l.callbackEnd()
}

// Loop returns the loop to which the connection belongs. Any goroutine may call it.
func (c *Conn) Loop() *Loop { return c.loop }

// State returns the state of the connection.
func (c *Conn) State() ConnState {
	c.loop.owner.check()
	return c.state.coarse()
}

// Info describes the connection. Any goroutine may call Info after OnOpen.
func (c *Conn) Info() ConnInfo {
	i := &c.info
	info := ConnInfo{
		LocalAddr: i.local, RemoteAddr: i.remote, QPNum: i.qpNum,
		PeerPrivateData: i.peerPrivate, Credentials: i.credentials, DialOptions: i.dialOptions,
		MaxInFlight: c.loop.cfg.MaxInFlight, MaxMessage: c.loop.cfg.MaxMessage,
		ResponderResources: i.param.ResponderResources, InitiatorDepth: i.param.InitiatorDepth,
		FlowControl: i.param.FlowControl, RetryCount: i.param.RetryCount, RNRRetryCount: i.param.RNRRetryCount,
	}
	if c.device != nil {
		info.Device = c.device.dev
	}
	if c.long != nil {
		info.MaxMessage = max(info.MaxMessage, int(c.long.send.limit))
	}
	return info
}

// Stats returns the present counters of the connection.
func (c *Conn) Stats() ConnStats {
	c.loop.owner.check()
	s := c.stats
	s.InFlight = c.inFlight()
	return s
}

// Lease returns an empty buffer of at least n bytes for SendBuffer, at most 1 GiB. If n is 0,
// it has Config.MaxMessage bytes. A larger buffer has a power of two bytes, and a memory
// region of its own. The loop keeps its memory for about 40 s after Release, for later calls
// with the same power of two; memory whose key a peer got with a long message, for later calls
// on the same connection only. The caller owns the buffer until Buffer.Release or SendBuffer,
// and may send it on another connection of the loop and the device, which may copy it.
//
// If n is out of range, the error is a *verbs.ParamError. It matches ErrClosed after OnClose.
// Other errors mean that there is no memory.
func (c *Conn) Lease(n int) (*Buffer, error) {
	c.loop.owner.check()
	if c.state >= stateDisconnecting {
		return nil, operr.Wrap("lease buffer", closedError("the connection"))
	}
	return c.lease(n)
}

// lease returns an empty buffer of at least n bytes, in state bufferLeased. If n is above
// Config.MaxMessage, lease may return a buffer whose remote key the peer already knows.
func (c *Conn) lease(n int) (*Buffer, error) {
	if c.long != nil && n > c.device.pool.Size && n <= maxLease {
		if b := c.long.shown.take(c.device.pool.SizeFor(n)); b != nil {
			b.length = 0
			return b, nil
		}
	}
	return c.device.lease(n)
}

// inFlight returns ConnStats.InFlight.
func (c *Conn) inFlight() int {
	n := int(c.sends.flow.ofApp())
	if c.long != nil {
		n += c.long.send.outstanding() - c.long.send.announcing
	}
	return n
}

// enter moves the connection to a state without a time limit.
func (c *Conn) enter(s connState) {
	c.state = s
	c.loop.timers.Stop(&c.stateTimer)
}

// enterFor moves the connection to the state s and sets the time limit of this state.
func (c *Conn) enterFor(s connState, limit time.Duration) {
	c.state = s
	c.loop.setTimer(&c.stateTimer, limit)
}

// enterSameLimit moves the connection to the state s. The time limit of the previous
// state continues.
func (c *Conn) enterSameLimit(s connState) { c.state = s }
