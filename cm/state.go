package cm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// The states of one connection
//
// Three packages have a state for one connection, because they learn of a change at
// different times: provider/soft (State of its package connmgr) when a message is sent or
// received, this package (State) when a method is called or an event is fetched, and
// reactor (connState) when a loop handles an event, a completion or a timer, or when a
// method is called. The callback that reports a change follows the change. Each row has the
// states after a step. The dialing side:
//
//	step                        message  provider/soft  cm                 reactor
//	Dial                                 idle           resolving address  dialing
//	AddrResolved is fetched              idle           resolving route    dialing
//	RouteResolved is fetched    REQ ->   REQ sent       connecting         connecting
//	the REP arrives             RTU ->   established    connecting         connecting
//	Established is fetched               established    established        open
//
// The accepting side:
//
//	the REQ arrives                      REQ received   -                  -
//	ConnectRequest is fetched            REQ received   requested          -
//	Accept, the ID moves                 REQ received   requested          dialing
//	the queue pair is made      REP ->   REP sent       accepted           connecting
//	the RTU arrives, or data             established    accepted           connecting
//	Established is fetched               established    established        open
//
// This side closes the connection:
//
//	Close                                established    established        draining
//	all sends are confirmed     DREQ ->  DREQ sent      disconnecting      flushing
//	the queues are flushed               DREQ sent      disconnecting      disconnecting
//	the DREP arrives                     ended          disconnecting      disconnecting
//	Disconnected is fetched              ended          closed             closed
//
// The peer closes the connection:
//
//	the DREQ arrives                     DREQ arrived   established        open
//	the notices have arrived             DREQ received  established        open
//	Disconnected is fetched              DREQ received  disconnected       awaiting empty CQ
//	the CQ was polled empty     DREP ->  ended          disconnected       flushing
//	the queues are flushed               ended          disconnected       disconnecting
//	next step of the loop                ended          closed             closed

// State is the state of an ID. An event changes the state when Next returns the event.
// An ID connects only once.
type State uint8

// States of an ID. Each comment lists the calls and events by which an ID enters the
// state and leaves it. In every state, Close leads to StateClosed, and the event
// DeviceRemoval leads to StateFailed. If the Linux kernel has another name for a state,
// that name is in brackets.
const (
	// StateIdle: the ID is new and has no address.
	//
	//	entered by: NewID
	//	left by:    Bind, ResolveAddr
	StateIdle State = iota
	// StateBound: the ID has a local address. It also has a device, unless the address
	// is a wildcard.
	//
	//	entered by: Bind, AddrError
	//	left by:    Listen, ResolveAddr
	StateBound
	// StateListening: the ID accepts requests. Each request arrives as a ConnectRequest
	// event with a new ID.
	//
	//	entered by: Listen
	StateListening
	// StateResolvingAddr: the transport looks for the device and the next hop
	// (ADDR_QUERY).
	//
	//	entered by: ResolveAddr
	//	left by:    AddrResolved, AddrError
	StateResolvingAddr
	// StateAddrResolved: the ID has a local address, a peer address and a device.
	//
	//	entered by: AddrResolved, RouteError
	//	left by:    ResolveRoute
	StateAddrResolved
	// StateResolvingRoute: the transport looks for the route (ROUTE_QUERY).
	//
	//	entered by: ResolveRoute
	//	left by:    RouteResolved, RouteError
	StateResolvingRoute
	// StateRouteResolved: the ID can connect.
	//
	//	entered by: RouteResolved
	//	left by:    Connect
	StateRouteResolved
	// StateConnecting, active side: the request was sent and is not answered yet
	// (REQ_SENT).
	//
	//	entered by: Connect
	//	left by:    Established, ConnectResponse, ConnectError, Unreachable, Rejected;
	//	            in the UDP port space also AddrError
	StateConnecting
	// StateResponded, active side: the peer has accepted, and the ID has no queue pair
	// (REP_RCVD).
	//
	//	entered by: ConnectResponse
	//	left by:    Establish, Reject, RejectNoResources, Disconnected, ConnectError,
	//	            Unreachable, Rejected
	StateResponded
	// StateRequested, passive side: the ID is new, and its request is not answered yet
	// (REQ_RCVD).
	//
	//	entered by: ConnectRequest
	//	left by:    Accept, Reject, RejectNoResources, Unreachable
	StateRequested
	// StateAccepted, passive side: the request was accepted, and Established was not
	// fetched yet (REP_SENT).
	//
	//	entered by: Accept
	//	left by:    Established, Disconnect, Disconnected, ConnectError, Unreachable, Rejected
	StateAccepted
	// StateDisconnectPending, passive side: Disconnect was called before Established was
	// fetched (REP_SENT). The queue pair is flushed.
	//
	//	entered by: Disconnect
	//	left by:    Established, to StateDisconnecting;
	//	            Disconnected, to StateDisconnected;
	//	            ConnectError, Unreachable, Rejected, to StateFailed
	StateDisconnectPending
	// StateEstablished: the connection exists. In the UDP port space, the lookup was
	// answered.
	//
	//	entered by: Established, Establish; in the UDP port space also Accept
	//	left by:    Disconnect, Disconnected
	StateEstablished
	// StateDisconnecting: the disconnect request was sent, and the queue pair is flushed
	// (DREQ_SENT).
	//
	//	entered by: Disconnect; in StateDisconnectPending also Established
	//	left by:    Disconnected
	StateDisconnecting
	// StateDisconnected: the connection has ended. If the peer disconnected first, it
	// now waits until this side calls Disconnect or Close. Disconnect also flushes the
	// queue pair.
	//
	//	entered by: Disconnected; in the UDP port space Disconnect
	StateDisconnected
	// StateFailed: the connection was refused, the peer can not be reached, or the
	// device was removed. The ID can only be closed.
	//
	//	entered by: Reject, RejectNoResources, a failed Accept, ConnectError,
	//	            Unreachable, Rejected, DeviceRemoval; for a lookup in the UDP port
	//	            space also AddrError
	StateFailed
	// StateClosed: Close was called. The comment of ID says what the methods return now.
	StateClosed
)

var stateNames = [...]string{
	"idle", "bound", "listening", "resolving address", "address resolved", "resolving route", "route resolved",
	"connecting", "responded", "requested", "accepted", "disconnect pending", "established", "disconnecting", "disconnected", "failed", "closed",
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return unknown("state", uint64(s))
}

// stateError returns the error of a call that the state does not allow. It names the states
// that allow the call if they are few.
func stateError(c call, now State) error {
	var list []string
	for s := range StateClosed {
		if slices.ContainsFunc(callRules, func(r rule[call]) bool { return r.what.String() == c.String() && r.from&(1<<s) != 0 }) {
			list = append(list, s.String())
		}
	}
	if len(list) > 3 {
		return fmt.Errorf("%w: the ID is %v", verbs.ErrState, now)
	}
	return fmt.Errorf("%w: the ID is %v, and not %s", verbs.ErrState, now, strings.Join(list, " or "))
}

// A call is a method that only some states allow.
type call uint8

const (
	callBind call = iota
	callListen
	callResolveAddr
	callResolveRoute
	callCreateQP
	callInitQPAttr
	callReadyQPAttr
	callConnect
	callAccept
	callReject
	callEstablish
	callNotify
	callDisconnect
	callMigrate
	callSetTOS
	callSetReuseAddr
	callClearReuseAddr
	callSetAFOnly
	callSetAckTimeout
	callSetMinRNRTimer
)

var callNames = [...]string{
	"bind", "listen", "resolve address", "resolve route", "create QP", "init QP attributes", "init QP attributes",
	"connect", "accept", "reject", "establish", "notify", "disconnect", "migrate",
	"set TOS", "set REUSEADDR", "clear REUSEADDR", "set AFONLY", "set ACK_TIMEOUT", "set MIN_RNR_TIMER",
}

func (c call) String() string { return callNames[c] }

// withoutQP reports whether the call is only for an ID without a queue pair.
func (c call) withoutQP() bool {
	switch c {
	case callListen, callCreateQP, callInitQPAttr, callReadyQPAttr, callEstablish:
		return true
	}
	return false
}

// states is a set of states.
type states uint32

func setOf(list ...State) (set states) {
	for _, s := range list {
		set |= 1 << s
	}
	return set
}

var (
	// liveStates has all states except StateClosed.
	liveStates = states(1<<StateClosed - 1)
	// addressingStates has the states before ResolveRoute.
	addressingStates = setOf(StateIdle, StateBound, StateResolvingAddr, StateAddrResolved)
	// locatedStates has the states in which the ID may have a device, but does not
	// connect yet.
	locatedStates = setOf(StateBound, StateAddrResolved, StateResolvingRoute, StateRouteResolved, StateRequested)
	// answeredStates has the states in which the peer's parameters are known.
	answeredStates = setOf(StateResponded, StateRequested, StateAccepted, StateEstablished)
	// waitingStates has the states in which the handshake is not over and may still
	// fail.
	waitingStates = setOf(StateConnecting, StateResponded, StateAccepted, StateDisconnectPending)
)

// sameState in a rule means that the state does not change. No rule leads to StateIdle,
// so sameState can have its number.
const sameState = StateIdle

// A rule says in which states a call or event is possible, and what the next state is.
type rule[T call | EventType] struct {
	what T         // call or type of event to which the rule applies
	from states    // states in which this call or event is possible
	ps   PortSpace // port space in which the rule applies; zero means both
	to   State     // next state, or sameState
}

// follow returns the next state for a call or event. If no rule matches, it returns the
// current state and false.
func follow[T call | EventType](rules []rule[T], what T, ps PortSpace, from State) (State, bool) {
	for _, r := range rules {
		if r.what != what || r.from&(1<<from) == 0 || r.ps != 0 && r.ps != ps {
			continue
		}
		if r.to == sameState {
			return from, true
		}
		return r.to, true
	}
	return from, false
}

// callRules has the calls that the manual pages allow. This package refuses some calls
// that librdmacm allows:
//
//   - Disconnect in StateRequested. In librdmacm it has no effect.
//   - Setting an option too late. In librdmacm it has no effect.
//   - Listen without Bind. The manual page rdma_listen(3) forbids it.
var callRules = []rule[call]{
	{what: callBind, from: setOf(StateIdle), to: StateBound},
	{what: callListen, from: setOf(StateBound), to: StateListening},
	{what: callResolveAddr, from: setOf(StateIdle, StateBound), to: StateResolvingAddr},
	{what: callResolveRoute, from: setOf(StateAddrResolved), to: StateResolvingRoute},

	{what: callCreateQP, from: locatedStates, to: sameState},
	{what: callInitQPAttr, from: locatedStates | answeredStates | setOf(StateConnecting), to: sameState},
	{what: callReadyQPAttr, from: answeredStates, ps: TCP, to: sameState},
	{what: callReadyQPAttr, from: locatedStates | answeredStates | setOf(StateConnecting), ps: UDP, to: sameState},

	{what: callConnect, from: setOf(StateRouteResolved), to: StateConnecting},
	{what: callAccept, from: setOf(StateRequested), ps: TCP, to: StateAccepted},
	{what: callAccept, from: setOf(StateRequested), ps: UDP, to: StateEstablished},
	{what: callReject, from: setOf(StateRequested, StateResponded), to: StateFailed},
	{what: callEstablish, from: setOf(StateResponded), to: StateEstablished},
	{what: callNotify, from: setOf(StateAccepted), to: sameState}, // the event Established changes the state later
	{what: callDisconnect, from: setOf(StateConnecting, StateResponded), to: sameState},
	{what: callDisconnect, from: setOf(StateAccepted), to: StateDisconnectPending},
	{what: callDisconnect, from: setOf(StateEstablished), ps: TCP, to: StateDisconnecting},
	{what: callDisconnect, from: setOf(StateEstablished), ps: UDP, to: StateDisconnected},
	{what: callDisconnect, from: setOf(StateDisconnectPending, StateDisconnecting, StateDisconnected, StateFailed), to: sameState},
	{what: callMigrate, from: liveStates, to: sameState},

	{what: callSetTOS, from: addressingStates, to: sameState},
	{what: callSetReuseAddr, from: liveStates &^ setOf(StateListening), to: sameState},
	{what: callClearReuseAddr, from: setOf(StateIdle), to: sameState},
	{what: callSetAFOnly, from: setOf(StateIdle, StateBound), to: sameState},
	{what: callSetAckTimeout, from: addressingStates | locatedStates, to: sameState},
	{what: callSetMinRNRTimer, from: addressingStates | locatedStates, to: sameState},
}

// eventRules has the events that an ID can get. Unreachable has two special meanings
// (rdma_get_cm_event(3)):
//
//   - If the connection is established, the address of a neighbour has changed. The
//     connection continues.
//   - If a request is not answered yet, the transport has dropped it to make room for
//     other requests.
var eventRules = []rule[EventType]{
	{what: AddrResolved, from: setOf(StateResolvingAddr), to: StateAddrResolved},
	{what: AddrError, from: setOf(StateResolvingAddr), to: StateBound},
	{what: AddrError, from: setOf(StateConnecting), ps: UDP, to: StateFailed},
	{what: RouteResolved, from: setOf(StateResolvingRoute), to: StateRouteResolved},
	{what: RouteError, from: setOf(StateResolvingRoute), to: StateAddrResolved},

	{what: ConnectRequest, from: setOf(StateListening), to: sameState},
	{what: ConnectResponse, from: setOf(StateConnecting), ps: TCP, to: StateResponded},
	{what: ConnectError, from: waitingStates, to: StateFailed},
	{what: Unreachable, from: waitingStates | setOf(StateRequested), to: StateFailed},
	{what: Unreachable, from: setOf(StateEstablished), to: sameState},
	{what: Rejected, from: waitingStates, ps: TCP, to: StateFailed},
	{what: Established, from: setOf(StateConnecting, StateAccepted), to: StateEstablished},
	{what: Established, from: setOf(StateDisconnectPending), to: StateDisconnecting},
	{what: Disconnected, from: setOf(StateResponded, StateAccepted, StateDisconnectPending, StateEstablished, StateDisconnecting), ps: TCP, to: StateDisconnected},

	{what: TimewaitExit, from: setOf(StateDisconnected, StateFailed), ps: TCP, to: sameState},
	{what: DeviceRemoval, from: liveStates, to: StateFailed},
	{what: AddrChange, from: liveStates, to: sameState},
}
