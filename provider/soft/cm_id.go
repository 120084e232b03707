//go:build linux

package soft

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An id implements cm.TransportID: the state machine of one end of a connection,
// of a lookup, or of a listener. The lock of its channel covers it. Package cm
// has checked the order of the calls; what can have changed since, by what the
// peer did, is checked here.
type id struct {
	ch    atomic.Pointer[channel]
	ps    cm.PortSpace
	state cmState
	timer deadline
	// timerLimit is the latest time to which extendTimer may move the timer, however
	// often the peer asks for more time.
	timerLimit time.Time

	port          reservation
	local, remote netip.AddrPort
	bound         *device // nil until an address of the device is known
	opts          options

	conn     cmConn // of an active or passive side, from its request on
	active   bool   // sent the request; the passive side got it
	notified bool   // established by Notify: the peer's rtuMsg is still due

	lastQP *qp // last queue pair made on the ID; see ownQP
	// qpn is the number of the connection's queue pair, made on the ID or named by the
	// application.
	qpn        uint32
	negotiated negotiation

	listeners       listeners // of a listener
	madPort         *madPort  // that this side sends from, if it is known before the request
	backlog         int
	pendingRequests int // requests that wait to be fetched
	parent          *id // of a passive side, until it is fetched

	queued  int  // number of events in the channel's queue about this ID
	dropped bool // the ID was destroyed, and its events are not to be fetched
}

// phase is where an ID stands between request and end. The names follow the
// states of IBTA vol. 1, 12.9.7 and 12.11.
type cmState uint8

const (
	stateIdle        cmState = iota
	stateREQSent             // active: REQ or SIDR_REQ is out
	stateREPReceived         // active without QP: REP is in, establish is awaited
	stateREQReceived         // passive: a request is in
	stateREPSent             // passive: REP is out, RTU is awaited
	stateEstablished
	stateDREQSent     // this side has sent DREQ
	stateDREQReceived // the peer has sent DREQ, which is to be answered
	// passive: the peer went before its request was answered; Accept reports it
	stateWithdrawn
	stateEnded // refused, timed out or disconnected: no message is expected
)

func newID(ch *channel, ps cm.PortSpace) *id {
	i := &id{ps: ps, port: noReservation(), opts: options{minRNRTimer: cm.DefaultMinRNRTimer}}
	i.ch.Store(ch)
	i.timer.fire = i.timedOut
	return i
}

// lock locks the channel the ID is on; the caller unlocks what it returns.
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

// raise queues an event of the ID.
func (i *id) raise(ev cm.TransportEvent) {
	ev.ID = i
	ch := i.ch.Load()
	ch.queue.push(ev)
}

// expect starts the timer of the present phase.
func (i *id) startTimer(within time.Duration) {
	ch := i.ch.Load()
	ch.timers.start(&i.timer, ch.clock().Add(within))
}

// extend restarts the timer because the peer asks for more time, but not beyond
// timerLimit. So a peer that asks again and again does not hold the ID without end.
func (i *id) extendTimer(within time.Duration) {
	ch := i.ch.Load()
	at := ch.clock().Add(within)
	if at.After(i.timerLimit) {
		at = i.timerLimit
	}
	ch.timers.start(&i.timer, at)
}

// enter starts a phase. From stateDREQReceived on, messages are not delivered any more.
func (i *id) enter(p cmState) {
	i.state = p
	ch := i.ch.Load()
	ch.timers.stop(&i.timer)
	if p >= stateDREQReceived {
		i.conn.stopDelivery()
	}
}

// deliver takes a message from the carrier, and reports whether it is one that
// the peer may send now.
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

// lost: the peer closed the carrier without a word, died, or broke the protocol.
// The event is the one that a kernel would cause in the name of a killed process.
func (i *id) peerGone() {
	switch i.state {
	case stateREQSent, stateREPReceived, stateREPSent:
		i.requestRejected(&rejMsg{reason: cm.RejectConsumer})
	case stateREQReceived:
		i.enter(stateWithdrawn)
	case stateEstablished:
		i.conn.peerVanished()
		i.enter(stateDREQReceived)
		i.raise(cm.TransportEvent{Type: cm.Disconnected, Err: verbs.ErrPeerGone})
	case stateDREQSent:
		i.disconnected(0)
	}
}

// onAckTimeout: what the present phase waits for did not come.
func (i *id) timedOut(time.Time) {
	switch i.state {
	case stateREQSent:
		i.cancelRequest()
		i.unreachable(statusTimedOut, nil)
	case stateREPSent:
		i.unreachable(statusTimedOut, nil)
	case stateDREQSent:
		i.disconnected(statusTimedOut)
	}
}

func (i *id) unreachable(status int, cause error) {
	i.enter(stateEnded)
	i.failQP()
	i.raise(cm.TransportEvent{Type: cm.Unreachable, Status: status, Err: cause})
}

// cancelRequest tells the peer that this side does not wait for the answer to a
// connection request any more. For a lookup there is no such message (IBTA vol. 1,
// 12.11), so nothing is sent.
func (i *id) cancelRequest() {
	if i.ps == cm.TCP {
		_ = i.conn.send(&rejMsg{reason: cm.RejectTimeout})
	}
}

// Destroy ends the ID; see cm.TransportID.
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
	ch.timers.stop(&i.timer)
	i.announceEnd()
	i.listeners.close()
	i.listeners = nil
	if i.conn != nil {
		i.conn.close()
		i.conn = nil
	}
	if i.madPort != nil {
		i.madPort.close(ch)
		i.madPort = nil
	}
	i.port.close()
	i.state = stateEnded
}

// refuseUnfetched refuses the requests to a listener that the application has not
// fetched.
func (i *id) refuseUnfetched(ch *channel) {
	for _, ev := range ch.queue.extract(i) {
		if child := ev.ID.(*id); child != i {
			child.destroy(ch)
		}
	}
}

// farewell tells the peer that the ID goes, as far as it does not know. That it
// may be gone itself does not matter.
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
	case stateDREQReceived:
		last = &drepMsg{}
	default:
		return
	}
	_ = i.conn.send(last)
}

// Device is the soft device as soon as the ID has an address of it.
func (i *id) Device() verbs.Device {
	ch := i.lock()
	defer ch.unlock()
	if i.bound == nil {
		return nil
	}
	return i.bound
}

// Port is 1, or 0 without a device.
func (i *id) Port() uint8 {
	ch := i.lock()
	defer ch.unlock()
	if i.bound == nil {
		return 0
	}
	return devicePort
}

// LocalAddr is what the ID is bound to.
func (i *id) LocalAddr() netip.AddrPort {
	ch := i.lock()
	defer ch.unlock()
	return i.local
}

// Credentials implements cm.CredentialsReader.
func (i *id) Credentials() (cm.Credentials, bool) {
	ch := i.lock()
	defer ch.unlock()
	if i.conn == nil {
		return cm.Credentials{}, false
	}
	return i.conn.credentials()
}

// RemoteAddr is the peer's address.
func (i *id) RemoteAddr() netip.AddrPort {
	ch := i.lock()
	defer ch.unlock()
	return i.remote
}
