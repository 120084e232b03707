//go:build linux

package connmgr

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An id implements cm.TransportID. It is a listener, or one side of a connection or of a
// SIDR request. The lock of the id's channel guards the id. Package cm makes sure that
// the application calls the methods in a valid order.
type id struct {
	ch    atomic.Pointer[channel]
	m     *Manager // manager of the channel
	ps    cm.PortSpace
	state idState
	// timer limits the wait for the next message of the peer. In stateDREQArrived it
	// runs between two calls of awaitNotices.
	timer timerheap.Timer
	// timerLimit is the latest time to which extendTimer moves the timer. In
	// stateDREQArrived it is the time at which the wait for notices ends.
	timerLimit time.Time

	reservation   hostport.Reservation
	local, remote netip.AddrPort // addresses of this side and of the peer; invalid if unknown
	located       bool           // true if the ID has a local address that is not a wildcard
	opts          options

	// connection to the peer; nil before ResolveAddr has found its path, and for a listener
	conn   cmConn
	active bool // true if this side has sent the request
	// credentials of the peer's process; valid if peerKnown is true
	peer      cm.Credentials
	peerKnown bool
	bound     boundQP // the local queue pair and its binding
	// notified is true after Notify has established the connection. An RTU that arrives
	// later clears the field, and has no other effect.
	notified bool

	lastQP QueuePair // last queue pair that CreateQP has made; see ownQP
	// Number of the local queue pair: the number of ownQP, or the number that the
	// application has passed to Connect or Accept.
	qpn        uint32
	negotiated negotiation

	listeners listeners // the listeners of a listening ID; empty for other IDs
	backlog   int       // largest allowed value of pendingRequests of a listening ID
	// number of requests to a listening ID that the application has not fetched
	pendingRequests int
	// For the ID of a request that the application has not fetched: the listening ID.
	// Otherwise nil.
	parent *id

	queued  int  // number of this ID's events in the channel's queue
	dropped bool // true after the ID was destroyed; pop() then skips its events
}

// options are the values that SetOption has set.
type options struct {
	tos           uint8
	reuse         bool
	afOnly        bool
	ackTimeout    uint8 // code of the ACK timeout, 5 bits; used if ackTimeoutSet is true
	ackTimeoutSet bool
	minRNRTimer   uint8 // code of the minimum RNR timer, 5 bits
}

// Values of the field Status of events.
const (
	statusSetupFailed = -1 // status of the event ConnectError (rdma_get_cm_event(3))

	// The statuses below are negated error numbers of Linux.
	statusNoDevice = -19  // -ENODEV
	statusTimedOut = -110 // -ETIMEDOUT
	statusRefused  = -111 // -ECONNREFUSED
)

// idState is the state of a connection or a SIDR request (IBTA vol. 1, 12.9.7 and 12.11).
// The order of the states matters, because the code compares them.
//
// Destroy leads to stateEnded from every state. A connection becomes stale when its peer
// uses the same queue pair in another request. A stale connection changes its state: from
// stateREQReceived to stateWithdrawn, from stateDREQSent to stateEnded, and from
// stateREPReceived, stateREPSent or stateEstablished to stateDREQReceived.
type idState uint8

const (
	// stateIdle means that the ID has neither sent nor received a request. A listener stays
	// in this state. Connect leads to stateREQSent.
	stateIdle idState = iota
	// stateREQSent means that the active side has sent a REQ or a SIDR_REQ. The timer limits
	// the wait for the answer. A REP leads to stateEstablished, or to stateREPReceived if the
	// ID has no queue pair. A SIDR_REP leads to stateEnded, and so does every failure.
	stateREQSent
	// stateREPReceived means that the active side has received a REP, and that the
	// application has to connect its own queue pair. Establish leads to stateEstablished.
	// Reject, a REJ and the end of the peer's process lead to stateEnded. A DREQ leads to
	// stateDREQArrived.
	stateREPReceived
	// stateREQReceived means that the passive side has received a REQ or a SIDR_REQ and has
	// not answered. Accept of a REQ leads to stateREPSent. Accept of a SIDR_REQ leads to
	// stateEnded, and so do Reject, an error of Accept, and eviction. A cancelled request
	// leads to stateWithdrawn.
	stateREQReceived
	// stateREPSent means that the passive side has sent a REP. The timer limits the wait for
	// the RTU. The RTU or a call of Notify leads to stateEstablished. A DREQ leads to
	// stateDREQArrived. A REJ, the timeout, the end of the peer's process and eviction lead
	// to stateEnded.
	stateREPSent
	// stateEstablished means that the connection is open. Disconnect leads to
	// stateDREQSent. A DREQ or a REJ leads to stateDREQArrived. The end of the peer's
	// process leads to stateDREQReceived.
	stateEstablished
	// stateDREQSent means that this side has sent a DREQ. The timer limits the wait for
	// the DREP. The DREP, a DREQ, a REJ, the timeout, the end of the peer's process and
	// eviction lead to stateEnded.
	stateDREQSent
	// stateDREQArrived means that a DREQ has arrived before notices that the peer has
	// sent earlier. A notice says which requests of this side the peer has executed. The
	// application has not been told of the DREQ.
	//
	// The timer makes this side look for the notices repeatedly. When they have arrived,
	// and at the latest after noticeLimit, the state changes to stateDREQReceived.
	// Disconnect sends a DREP, and leads to stateEnded.
	stateDREQArrived
	// stateDREQReceived means that the peer has disconnected, or that its process has ended.
	// The application gets the event Disconnected. Disconnect sends a DREP, and leads to
	// stateEnded.
	stateDREQReceived
	// stateWithdrawn means that a request was not answered and is no longer valid: the peer
	// has cancelled it, has used its queue pair in another request, or its process has ended.
	// Accept and Reject return an error. Destroy and eviction lead to stateEnded.
	stateWithdrawn
	// stateEnded means that the connection or SIDR request has ended. No further message is
	// expected.
	stateEnded
)

func newID(ch *channel, ps cm.PortSpace) *id {
	i := &id{m: ch.m, ps: ps, reservation: hostport.NoReservation(), opts: options{minRNRTimer: cm.DefaultMinRNRTimer}}
	i.ch.Store(ch)
	i.timer.Owner = i
	return i
}

// lock locks the channel of the ID and returns it. The caller unlocks it.
func (i *id) lock() *channel {
	for {
		ch := i.ch.Load()
		ch.mu.Lock()
		if i.ch.Load() == ch {
			return ch
		}
		ch.mu.Unlock()
	}
}

// raise queues an event about the ID on its channel.
func (i *id) raise(ev cm.TransportEvent) {
	ev.ID = i
	ch := i.ch.Load()
	ch.queue.push(ev)
}

// startTimer starts the timer of the present state. The timer expires after the given
// time.
func (i *id) startTimer(within time.Duration) {
	ch := i.ch.Load()
	ch.startTimer(&i.timer, within)
}

// extendTimer makes the timer expire after the given time, but not later than timerLimit.
func (i *id) extendTimer(within time.Duration) {
	ch := i.ch.Load()
	at := ch.clock().Add(within)
	if at.After(i.timerLimit) {
		at = i.timerLimit
	}
	ch.timers.Set(&i.timer, ch.sinceStart(at))
}

// enter changes the state and stops the timer. From stateDREQArrived on, the ID gets no
// more messages of the peer.
func (i *id) enter(p idState) {
	i.state = p
	ch := i.ch.Load()
	ch.timers.Stop(&i.timer)
	if p >= stateDREQArrived {
		i.conn.stopDelivery()
	}
}

// deliver handles a message of the peer. It returns false if the present state does not
// allow the message.
func (i *id) deliver(m message) bool {
	switch m := m.(type) {
	case *repMsg:
		return i.onREP(m)
	case *rtuMsg:
		return i.onRTU()
	case *rejMsg:
		return i.onREJ(m)
	case *dreqMsg:
		return i.onDREQ()
	case *drepMsg:
		return i.onDREP()
	case *sidrRepMsg:
		return i.onSIDRREP(m)
	}
	return false
}

// peerGone ends the connection after the peer has closed its socket or has sent an
// invalid message. The application gets the same events as it would get from the kernel's
// CM.
func (i *id) peerGone() {
	switch i.state {
	case stateREQSent, stateREPReceived, stateREPSent:
		i.requestRejected(&rejMsg{reason: cm.RejectConsumer})
	case stateREQReceived:
		i.enter(stateWithdrawn)
	case stateEstablished:
		i.bound.peerGone(i.m.Engine)
		i.enter(stateDREQReceived)
		i.raise(cm.TransportEvent{Type: cm.Disconnected, Err: verbs.ErrPeerGone})
	case stateDREQSent:
		i.disconnected(0)
	}
}

// OnTimer implements timerheap.Owner. In stateDREQArrived it calls awaitNotices. In the
// other states, a message of the peer has not arrived in time, so OnTimer ends the
// connection or request.
func (i *id) OnTimer(*timerheap.Timer) {
	switch i.state {
	case stateREQSent:
		i.cancelRequest()
		i.unreachable(statusTimedOut, nil)
	case stateREPSent:
		i.unreachable(statusTimedOut, nil)
	case stateDREQSent:
		i.disconnected(statusTimedOut)
	case stateDREQArrived:
		i.awaitNotices()
	}
}

// unreachable ends the connection or request with the event Unreachable.
func (i *id) unreachable(status int, cause error) {
	i.fail(cm.TransportEvent{Type: cm.Unreachable, Status: status, Err: cause})
}

// fail ends the connection or request with the event ev. If the ID has a queue pair for a
// connection, fail moves it to the error state.
func (i *id) fail(ev cm.TransportEvent) {
	i.enter(stateEnded)
	i.failQP()
	i.raise(ev)
}

// disconnected ends a connection after its DREQ was answered or has timed out. It queues
// the event Disconnected. It also queues TimewaitExit at once, because no packet is in
// flight.
func (i *id) disconnected(status int) {
	i.enter(stateEnded)
	i.raise(cm.TransportEvent{Type: cm.Disconnected, Status: status})
	i.raise(cm.TransportEvent{Type: cm.TimewaitExit})
}

// cancelRequest cancels a connection request with a REJ. It does nothing for a SIDR
// request, because the protocol has no message to cancel one (IBTA vol. 1, 12.11).
func (i *id) cancelRequest() {
	if i.ps == cm.TCP {
		_ = i.conn.send(&rejMsg{reason: cm.RejectTimeout})
	}
}

// Destroy implements cm.TransportID. It tells the peer that this side ends, releases the
// resources of the ID, and drops its queued events. A listener refuses the requests that
// the application has not fetched.
func (i *id) Destroy() error {
	ch := i.lock()
	defer ch.unlock()
	i.destroy(ch)
	return nil
}

func (i *id) destroy(ch *channel) {
	if i.pendingRequests > 0 {
		i.refuseUnfetched(ch)
	}
	ch.queue.drop(i)
	ch.timers.Stop(&i.timer)
	i.announceEnd()
	i.listeners.close()
	i.listeners = nil
	i.closeConn()
	i.reservation.Close()
	i.state = stateEnded
}

// closeConn unbinds the queue pair and closes the connection, if there is one.
func (i *id) closeConn() {
	i.bound.unbind(i.m.Engine)
	if i.conn != nil {
		i.conn.close()
		i.conn = nil
	}
}

// refuseUnfetched refuses the requests to this listener that the application has not
// fetched.
func (i *id) refuseUnfetched(ch *channel) {
	for _, ev := range ch.queue.extract(i) {
		if child := ev.ID.(*id); child != i {
			child.destroy(ch)
		}
	}
}

// announceEnd sends the message with which this side ends the connection or request. It
// ignores errors, because the peer may already have closed the connection.
func (i *id) announceEnd() {
	var last message
	switch i.state {
	case stateREQSent:
		i.cancelRequest()
		return
	case stateREQReceived:
		last = i.refusal(cm.RejectConsumer, nil, false)
	case stateREPReceived, stateREPSent:
		last = &rejMsg{reason: cm.RejectConsumer}
	case stateEstablished:
		last = &dreqMsg{}
	case stateDREQArrived, stateDREQReceived:
		last = &drepMsg{}
	default:
		return
	}
	_ = i.conn.send(last)
}

// Device implements cm.TransportID. It returns nil if the ID has no local address, or
// only a wildcard.
func (i *id) Device() verbs.Device {
	ch := i.lock()
	defer ch.unlock()
	if !i.located {
		return nil
	}
	return i.m.Device
}

// Port implements cm.TransportID. It returns 0 if the ID has no local address, or only a
// wildcard.
func (i *id) Port() uint8 {
	ch := i.lock()
	defer ch.unlock()
	if !i.located {
		return 0
	}
	return PortNumber
}

// LocalAddr implements cm.TransportID.
func (i *id) LocalAddr() netip.AddrPort {
	ch := i.lock()
	defer ch.unlock()
	return i.local
}

// Credentials implements cm.CredentialsReader. It returns the credentials of the peer's
// process, or false if they are unknown.
func (i *id) Credentials() (cm.Credentials, bool) {
	ch := i.lock()
	defer ch.unlock()
	if i.conn == nil || !i.peerKnown {
		return cm.Credentials{}, false
	}
	return i.peer, true
}

// RemoteAddr implements cm.TransportID.
func (i *id) RemoteAddr() netip.AddrPort {
	ch := i.lock()
	defer ch.unlock()
	return i.remote
}
