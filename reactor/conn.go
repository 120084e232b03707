package reactor

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Conn is one reliable connection. It belongs to its loop: its methods may be
// called on the loop's goroutine only; other goroutines use Loop.Post. The
// application gets it in OnOpen. After OnClose the methods that return addresses,
// credentials, parameters and counters still work.
type Conn struct {
	loop   *Loop
	device *loopDevice // nil until the device is known
	id     *cm.ID
	qp     verbs.QP
	// queue is the CQ of qp, with the places of the connection reserved. It is nil until
	// then.
	queue *completionQueue
	key   wrID

	state       ConnState
	closeReason closeReason

	dirty              bool // in Loop.dirty
	discardMessages    bool // no OnMessage any more
	advanceQueued      bool // in Loop.leaving
	openFailed         bool // will not open
	flushing           bool // was disconnected by this side
	disconnected       bool // the connection manager said so
	awaitsDisconnect   bool // waits for the peer's goodbye
	disconnectTimedOut bool // has waited long enough

	flow         sendFlow
	sendRequests []sendRequest // by slot
	batch        sendBatch
	maxInline    int // bytes of a message that may be sent so
	recvs        recvQueue
	heldMessages bufferList // messages from before OnOpen

	stateTimer             timer // how long the present state may last
	deadline               timer
	keepalive              timer
	idleTimeout            time.Duration // SetIdleTimeout; 0: off
	lastActive             time.Duration // when that was last seen to have been used
	activeSinceCheck       bool          // something was sent or received since
	lastFromPeer           time.Duration // when the peer was last heard of
	lastProbe              time.Duration // when the last probe was posted
	probeAlone             bool          // no request was outstanding when the last probe was posted
	emptyPollsAtDisconnect uint64        // value of queue.empty when the peer disconnected

	dial        *Dial        // of the dialing side
	request     *ConnRequest // of the other
	param       cm.ConnParam
	peerPrivate []byte
	local       netip.AddrPort
	remote      netip.AddrPort
	process     peerProcess
	context     any
	stats       ConnStats
}

// A request is what has to be known of a send request until it is done.
type sendRequest struct {
	op     Op
	notify bool
	probe  bool
	buffer *Buffer // nil: none to give back
}

// ConnStats are the counters of one connection.
type ConnStats struct {
	Messages     uint64 // received and delivered
	MessageBytes uint64
	// Accepted operations are those that a call took with a nil error. Each is
	// later Confirmed or Failed; in between it is outstanding. Because only
	// every k-th send is signaled, confirmations come in groups.
	Accepted  uint64
	Confirmed uint64
	Failed    uint64
	QueueFull uint64 // refused with ErrWouldBlock
}

// Loop is the loop the connection belongs to.
func (c *Conn) Loop() *Loop { return c.loop }

// State tells where the connection is in its life.
func (c *Conn) State() ConnState { return c.state }

// LocalAddr is the address of this side.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr is the address of the peer.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// PeerPrivateData is what the peer sent along when it asked or answered. It
// may be padded with zeros, see cm.ConnParam. It is the connection's, and valid
// for good.
func (c *Conn) PeerPrivateData() []byte { return c.peerPrivate }

// Param holds what was agreed on, from this side's point of view: the depths,
// the retry counts.
func (c *Conn) Param() cm.ConnParam { return c.param }

// QPNum is the number of this side's queue pair.
func (c *Conn) QPNum() uint32 { return c.param.QPNum }

// Dial is what the connection was dialed with, or nil if the peer dialed.
func (c *Conn) Dial() *Dial { return c.dial }

// Context is what SetContext stored, at first AcceptParams.Context or
// Dial.Context.
func (c *Conn) Context() any { return c.context }

// SetContext stores a value of the application's.
func (c *Conn) SetContext(v any) { c.context = v }

// Stats returns the connection's counters.
func (c *Conn) Stats() ConnStats { return c.stats }

// Lease takes a send buffer of the connection's device: see Loop.Lease.
func (c *Conn) Lease() (*Buffer, error) {
	if c.state >= StateParting {
		return nil, verbs.Wrap("lease buffer", ErrClosed)
	}
	return c.device.lease()
}

// MaxInFlight is how many operations may be outstanding.
func (c *Conn) MaxInFlight() int { return c.loop.cfg.MaxInFlight }

// InFlight is how many of the application's operations are outstanding.
func (c *Conn) InFlight() int { return int(c.flow.outstanding() - c.flow.probes) }
