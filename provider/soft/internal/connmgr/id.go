//go:build linux

package connmgr

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An ID implements cm.TransportID. It is a listener, or one side of a connection or of a
// SIDR request. The lock of the id's channel guards the id. Package cm makes sure that
// the application calls the methods in a valid order.
type ID struct {
	ch    atomic.Pointer[Channel]
	m     *Manager // manager of the channel
	ps    cm.PortSpace
	state State
	// timer limits the wait for the next message of the peer. In StateDREQArrived it
	// runs between two calls of awaitNotices.
	timer timerheap.Timer
	// timerLimit is the latest time to which ExtendTimer moves the timer. In
	// StateDREQArrived it is the time at which the wait for notices ends.
	timerLimit time.Time

	reservation   hostport.Reservation
	local, remote netip.AddrPort // addresses of this side and of the peer; invalid if unknown
	located       bool           // true if the ID has a local address that is not a wildcard
	opts          options

	// connection to the peer; nil before ResolveAddr has found its path, and for a listener
	conn   Conn
	active bool // true if this side has sent the request
	// credentials of the peer's process; valid if peerKnown is true
	peer      cm.Credentials
	peerKnown bool
	bound     boundQP // the local queue pair and its binding
	// notified is true after Notify has established the connection. An RTU that arrives
	// later clears the field, and has no other effect.
	notified bool
	// disconnectData is the private data of the peer's DREQ.
	disconnectData []byte

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
	parent *ID

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
	StatusSetupFailed = -1 // status of the event ConnectError (rdma_get_cm_event(3))

	// The statuses below are negated error numbers of Linux.
	StatusNoDevice = -19  // -ENODEV
	StatusTimedOut = -110 // -ETIMEDOUT
	StatusRefused  = -111 // -ECONNREFUSED
)

// State is the state of a connection or a SIDR request (IBTA vol. 1, 12.9.7 and 12.11).
// The order of the states matters, because the code compares them. The application sees a
// cm.State, which changes later, when it fetches the event; cm/state.go has a table of both.
//
// Destroy leads to StateEnded from every state. A connection becomes stale when its peer
// uses the same queue pair in another request. A stale connection changes its state: from
// StateREQReceived to StateWithdrawn, from StateDREQSent to StateEnded, and from
// StateREPReceived, StateREPSent or StateEstablished to StateDREQReceived.
type State uint8

const (
	// StateIdle means that the ID has neither sent nor received a request. A listener stays
	// in this state. Connect leads to StateREQSent.
	StateIdle State = iota
	// StateREQSent means that the active side has sent a REQ or a SIDR_REQ. The timer limits
	// the wait for the answer. A REP leads to StateEstablished, or to StateREPReceived if the
	// ID has no queue pair. A SIDR_REP leads to StateEnded, and so does every failure.
	StateREQSent
	// StateREPReceived means that the active side has received a REP, and that the
	// application has to connect its own queue pair. Establish leads to StateEstablished.
	// Reject, a REJ and the end of the peer's process lead to StateEnded. A DREQ leads to
	// StateDREQArrived.
	StateREPReceived
	// StateREQReceived means that the passive side has received a REQ or a SIDR_REQ and has
	// not answered. Accept of a REQ leads to StateREPSent. Accept of a SIDR_REQ leads to
	// StateEnded, and so do Reject, an error of Accept, and eviction. A cancelled request
	// leads to StateWithdrawn.
	StateREQReceived
	// StateREPSent means that the passive side has sent a REP. The timer limits the wait for
	// the RTU. The RTU or a call of Notify leads to StateEstablished. A DREQ leads to
	// StateDREQArrived. A REJ, the timeout, the end of the peer's process and eviction lead
	// to StateEnded.
	StateREPSent
	// StateEstablished means that the connection is open. Disconnect leads to
	// StateDREQSent. A DREQ or a REJ leads to StateDREQArrived. The end of the peer's
	// process leads to StateDREQReceived.
	StateEstablished
	// StateDREQSent means that this side has sent a DREQ. The timer limits the wait for
	// the DREP. The DREP, a DREQ, a REJ, the timeout, the end of the peer's process and
	// eviction lead to StateEnded.
	StateDREQSent
	// StateDREQArrived means that a DREQ has arrived before notices that the peer has
	// sent earlier. A notice says which requests of this side the peer has executed. The
	// application has not been told of the DREQ.
	//
	// The timer makes this side look for the notices repeatedly. When they have arrived,
	// and at the latest after NoticeLimit, the state changes to StateDREQReceived.
	// Disconnect sends a DREP, and leads to StateEnded.
	StateDREQArrived
	// StateDREQReceived means that the peer has disconnected, or that its process has ended.
	// The application gets the event Disconnected. Disconnect sends a DREP, and leads to
	// StateEnded.
	StateDREQReceived
	// StateWithdrawn means that a request was not answered and is no longer valid: the peer
	// has cancelled it, has used its queue pair in another request, or its process has ended.
	// Accept and Reject return an error. Destroy and eviction lead to StateEnded.
	StateWithdrawn
	// StateEnded means that the connection or SIDR request has ended. No further message is
	// expected.
	StateEnded
)

var stateNames = [...]string{
	"idle", "REQ sent", "REP received", "REQ received", "REP sent", "established",
	"DREQ sent", "DREQ arrived", "DREQ received", "withdrawn", "ended",
}

func (s State) String() string { return stateNames[s] }

func newID(ch *Channel, ps cm.PortSpace) *ID {
	i := &ID{m: ch.m, ps: ps, reservation: hostport.NoReservation(), opts: options{minRNRTimer: cm.DefaultMinRNRTimer}}
	i.ch.Store(ch)
	i.timer.Owner = i
	return i
}

// lock locks the channel of the ID and returns it. The caller unlocks it.
func (i *ID) lock() *Channel {
	for {
		ch := i.ch.Load()
		ch.mu.Lock()
		if i.ch.Load() == ch {
			return ch
		}
		ch.mu.Unlock()
	}
}

// SetOption implements cm.TransportID. If the ID is bound, the options AFONLY and
// REUSEADDR also rename the socket that reserves the ID's port.
func (i *ID) SetOption(option cm.Option, value int) error {
	ch := i.lock()
	defer ch.unlock()
	switch option {
	case cm.OptionTOS:
		i.opts.tos = uint8(value)
	case cm.OptionReuseAddr:
		return i.setReuse(value != 0)
	case cm.OptionAFOnly:
		return i.setAFOnly(value != 0)
	case cm.OptionAckTimeout:
		i.opts.ackTimeout, i.opts.ackTimeoutSet = uint8(value), true
	case cm.OptionMinRNRTimer:
		i.opts.minRNRTimer = uint8(value)
	default:
		return &verbs.ParamError{Field: "option", Value: int64(option), Limit: int64(cm.OptionMinRNRTimer)}
	}
	return nil
}

// setReuse sets or clears REUSEADDR. An ID that shares its port continues to share it
// when the option is cleared.
func (i *ID) setReuse(on bool) error {
	if on && i.local.IsValid() {
		if err := i.reservation.Share(); err != nil {
			return hostport.ExplainClash(err)
		}
	}
	i.opts.reuse = on
	return nil
}

func (i *ID) setAFOnly(on bool) error {
	if i.local.IsValid() {
		if err := i.reservation.Restrict(on); err != nil {
			return hostport.ExplainClash(err)
		}
	}
	i.opts.afOnly = on
	return nil
}

// Bind implements cm.TransportID. It reserves the port of the address.
func (i *ID) Bind(addr netip.AddrPort) error {
	ch := i.lock()
	defer ch.unlock()
	if err := i.m.Host.CheckOwn(addr.Addr()); err != nil {
		return err
	}
	return i.bind(ch, addr)
}

func (i *ID) bind(ch *Channel, addr netip.AddrPort) error {
	if i.local.IsValid() {
		return fmt.Errorf("%w: the ID is bound to %v", verbs.ErrState, i.local)
	}
	port, err := i.m.Host.Reserve(i.ps, addr, i.opts.afOnly, i.opts.reuse, i.m.FreePorts)
	if err != nil {
		return resource.Wrap(hostport.ExplainClash(err))
	}
	i.reservation = port
	i.local = netip.AddrPortFrom(addr.Addr().Unmap(), port.Addr.Port)
	if !port.Addr.Wildcard() {
		i.located = true
	}
	return nil
}

// raise queues an event about the ID on its channel.
func (i *ID) raise(ev cm.TransportEvent) {
	ev.ID = i
	ch := i.ch.Load()
	ch.queue.push(ev)
}

// StartTimer starts the timer of the present state. The timer expires after the given
// time.
func (i *ID) StartTimer(within time.Duration) {
	ch := i.ch.Load()
	ch.StartTimer(&i.timer, within)
}

// ExtendTimer makes the timer expire after the given time, but not later than timerLimit.
func (i *ID) ExtendTimer(within time.Duration) {
	ch := i.ch.Load()
	at := ch.clock().Add(within)
	if at.After(i.timerLimit) {
		at = i.timerLimit
	}
	ch.timers.Set(&i.timer, ch.sinceStart(at))
}

// enter changes the state and stops the timer. From StateDREQArrived on, the ID gets no
// more messages of the peer.
func (i *ID) enter(to State) {
	i.state = to
	ch := i.ch.Load()
	ch.timers.Stop(&i.timer)
	if to >= StateDREQArrived {
		i.conn.StopDelivery()
	}
}

// Deliver handles a message of the peer. It returns false if the present state does not
// allow the message.
func (i *ID) Deliver(m Message) bool {
	switch m := m.(type) {
	case *REP:
		return i.onREP(m)
	case *RTU:
		return i.onRTU()
	case *REJ:
		return i.onREJ(m)
	case *DREQ:
		return i.onDREQ(m)
	case *DREP:
		return i.onDREP()
	case *SIDRREP:
		return i.onSIDRREP(m)
	}
	return false
}

// PeerGone ends the connection after the peer has closed its socket or has sent an
// invalid message. The application gets the same events as it would get from the kernel's
// CM.
func (i *ID) PeerGone() {
	switch i.state {
	case StateREQSent, StateREPReceived, StateREPSent:
		i.requestRejected(&REJ{Reason: cm.RejectConsumer})
	case StateREQReceived:
		i.enter(StateWithdrawn)
	case StateEstablished:
		i.bound.peerGone(i.m.Engine)
		i.enter(StateDREQReceived)
		i.raise(cm.TransportEvent{Type: cm.Disconnected, Err: verbs.ErrPeerGone})
	case StateDREQSent:
		i.disconnected(0)
	}
}

// OnTimer implements timerheap.Owner. In StateDREQArrived it calls awaitNotices. In the
// other states, a message of the peer has not arrived in time, so OnTimer ends the
// connection or request.
func (i *ID) OnTimer(*timerheap.Timer) {
	switch i.state {
	case StateREQSent:
		i.cancelRequest()
		i.unreachable(StatusTimedOut, nil)
	case StateREPSent:
		i.unreachable(StatusTimedOut, nil)
	case StateDREQSent:
		i.disconnected(StatusTimedOut)
	case StateDREQArrived:
		i.awaitNotices()
	}
}

// unreachable ends the connection or request with the event Unreachable.
func (i *ID) unreachable(status int, cause error) {
	i.fail(cm.TransportEvent{Type: cm.Unreachable, Status: status, Err: cause})
}

// fail ends the connection or request with the event ev. If the ID has a queue pair for a
// connection, fail moves it to the error state.
func (i *ID) fail(ev cm.TransportEvent) {
	i.enter(StateEnded)
	i.failQP()
	i.raise(ev)
}

// disconnected ends a connection after its DREQ was answered or has timed out. It queues
// the event Disconnected. It also queues TimewaitExit at once, because no packet is in
// flight.
func (i *ID) disconnected(status int) {
	i.enter(StateEnded)
	i.raise(cm.TransportEvent{Type: cm.Disconnected, Status: status, PrivateData: i.disconnectData})
	i.raise(cm.TransportEvent{Type: cm.TimewaitExit})
}

// cancelRequest cancels a connection request with a REJ. It does nothing for a SIDR
// request, because the protocol has no message to cancel one (IBTA vol. 1, 12.11).
func (i *ID) cancelRequest() {
	if i.ps == cm.TCP {
		_ = i.conn.Send(&REJ{Reason: cm.RejectTimeout})
	}
}

// Destroy implements cm.TransportID. It tells the peer that this side ends, releases the
// resources of the ID, and drops its queued events. A listener refuses the requests that
// the application has not fetched.
func (i *ID) Destroy() error {
	ch := i.lock()
	defer ch.unlock()
	i.destroy(ch)
	return nil
}

func (i *ID) destroy(ch *Channel) {
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
	i.state = StateEnded
}

// closeConn unbinds the queue pair and closes the connection, if there is one.
func (i *ID) closeConn() {
	i.bound.unbind(i.m.Engine)
	if i.conn != nil {
		i.conn.Close()
		i.conn = nil
	}
}

// refuseUnfetched refuses the requests to this listener that the application has not
// fetched.
func (i *ID) refuseUnfetched(ch *Channel) {
	for _, ev := range ch.queue.extract(i) {
		if child := ev.ID.(*ID); child != i {
			child.destroy(ch)
		}
	}
}

// announceEnd sends the message with which this side ends the connection or request. It
// ignores errors, because the peer may already have closed the connection.
func (i *ID) announceEnd() {
	var last Message
	switch i.state {
	case StateREQSent:
		i.cancelRequest()
		return
	case StateREQReceived:
		last = i.refusal(cm.RejectConsumer, nil, false)
	case StateREPReceived, StateREPSent:
		last = &REJ{Reason: cm.RejectConsumer}
	case StateEstablished:
		last = &DREQ{}
	case StateDREQArrived, StateDREQReceived:
		last = &DREP{}
	default:
		return
	}
	_ = i.conn.Send(last)
}

// Device implements cm.TransportID. It returns nil if the ID has no local address, or
// only a wildcard.
func (i *ID) Device() verbs.Device {
	ch := i.lock()
	defer ch.unlock()
	if !i.located {
		return nil
	}
	return i.m.Device
}

// Port implements cm.TransportID. It returns 0 if the ID has no local address, or only a
// wildcard.
func (i *ID) Port() uint8 {
	ch := i.lock()
	defer ch.unlock()
	if !i.located {
		return 0
	}
	return PortNumber
}

// LocalAddr implements cm.TransportID.
func (i *ID) LocalAddr() netip.AddrPort {
	ch := i.lock()
	defer ch.unlock()
	return i.local
}

// Credentials implements cm.CredentialsReader. It returns the credentials of the peer's
// process, or false if they are unknown.
func (i *ID) Credentials() (cm.Credentials, bool) {
	ch := i.lock()
	defer ch.unlock()
	if i.conn == nil || !i.peerKnown {
		return cm.Credentials{}, false
	}
	return i.peer, true
}

// RemoteAddr implements cm.TransportID.
func (i *ID) RemoteAddr() netip.AddrPort {
	ch := i.lock()
	defer ch.unlock()
	return i.remote
}

// Migrate implements cm.TransportID. It moves the ID with its socket, its timer and its
// queued events. For a listener, it also moves the requests that the application has not
// fetched.
func (i *ID) Migrate(to cm.TransportChannel) error {
	dst, ok := to.(*Channel)
	if !ok {
		return fmt.Errorf("%w: the channel is of another device", verbs.ErrForeign)
	}
	src := i.lockBoth(dst)
	defer src.unlock()
	if src == dst {
		return nil
	}
	defer dst.unlock()
	if dst.closed {
		return verbs.ErrClosed
	}
	if dst.m != src.m {
		return fmt.Errorf("%w: the channel is of another device", verbs.ErrForeign)
	}
	return i.move(src, dst)
}

// lockBoth locks the channel of the ID and the channel dst. The channel with the lower
// epoll descriptor is locked first. lockBoth returns the channel of the ID.
func (i *ID) lockBoth(dst *Channel) (src *Channel) {
	for {
		src = i.ch.Load()
		first, second := src, dst
		if second.FD() < first.FD() {
			first, second = second, first
		}
		first.mu.Lock()
		if first != second {
			second.mu.Lock()
		}
		if i.ch.Load() == src {
			return src
		}
		if first != second {
			second.mu.Unlock()
		}
		first.mu.Unlock()
	}
}

func (i *ID) move(src, dst *Channel) error {
	if i.conn != nil {
		if err := i.conn.Move(dst); err != nil {
			return err
		}
	}
	if err := i.listeners.move(dst); err != nil {
		return err
	}
	src.timers.Move(&i.timer, &dst.timers)
	i.ch.Store(dst)
	for _, ev := range src.queue.extract(i) {
		if child := ev.ID.(*ID); child != i {
			if err := child.move(src, dst); err != nil {
				child.destroy(src)
				i.pendingRequests--
				i.listeners.setAccepting(true)
				continue
			}
		}
		dst.queue.push(ev)
	}
	return nil
}
