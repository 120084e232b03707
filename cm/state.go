package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// State is the state of an ID. An event changes the state when the event is fetched. An
// ID connects only once.
type State uint8

// States of an ID. The names in brackets are the states of the Linux kernel, where they
// differ.
const (
	// StateIdle: the ID is new and has no address. NewID enters this state; Bind and
	// ResolveAddr leave it.
	StateIdle State = iota
	// StateBound: the ID has a local address, and a device unless the address is a
	// wildcard. Bind and AddrError enter this state. Listen and ResolveAddr leave it.
	StateBound
	// StateListening: the ID accepts requests, which arrive as ConnectRequest events
	// with a new ID each. Listen enters this state.
	StateListening
	// StateResolvingAddr: the transport looks for the device and the next hop
	// (ADDR_QUERY). ResolveAddr enters this state; AddrResolved and AddrError leave it.
	StateResolvingAddr
	// StateAddrResolved: the ID has a local address, a peer address and a device.
	// AddrResolved and RouteError enter this state; ResolveRoute leaves it.
	StateAddrResolved
	// StateResolvingRoute: the transport looks for the route (ROUTE_QUERY). ResolveRoute
	// enters this state; RouteResolved and RouteError leave it.
	StateResolvingRoute
	// StateRouteResolved: the ID can connect. RouteResolved enters this state; Connect
	// leaves it.
	StateRouteResolved
	// StateConnecting, active side: the request was sent and is not answered yet
	// (REQ_SENT). Connect enters this state. Established, ConnectResponse, ConnectError,
	// Unreachable and Rejected leave it. In the UDP port space AddrError leaves it too.
	StateConnecting
	// StateResponded, active side without a queue pair on the ID: the peer has accepted
	// (REP_RCVD). ConnectResponse enters this state; Establish, Reject, Disconnected,
	// ConnectError, Unreachable and Rejected leave it.
	StateResponded
	// StateRequested, passive side: the request is not answered (REQ_RCVD). The ID of a
	// ConnectRequest event is created in this state. Accept, Reject, and Unreachable leave
	// it.
	StateRequested
	// StateAccepted, passive side: the peer has not confirmed, or Established was not
	// fetched yet (REP_SENT). Accept enters this state; Established, Disconnect,
	// Disconnected, ConnectError, Unreachable and Rejected leave it.
	StateAccepted
	// StateDisconnectPending, passive side: Disconnect was called in StateAccepted,
	// before Established was fetched (REP_SENT). The queue pair is flushed. Established
	// leads to StateDisconnecting, and Disconnected leads to StateDisconnected.
	// ConnectError, Unreachable and Rejected lead to StateFailed.
	StateDisconnectPending
	// StateEstablished: the sides are connected, or in the UDP port space the lookup was
	// answered. Established, Establish, and in the UDP port space Accept enter this
	// state. Disconnect and Disconnected leave it.
	StateEstablished
	// StateDisconnecting: the disconnect request was sent, and the queue pair is flushed
	// (DREQ_SENT). Disconnect enters this state from StateEstablished, and Established
	// enters it from StateDisconnectPending. Disconnected leaves it.
	StateDisconnecting
	// StateDisconnected: the connection has ended. The event Disconnected enters this
	// state, or in the UDP port space the call Disconnect. If the peer disconnected
	// first, the peer waits until this side calls Disconnect or Close. The call
	// Disconnect also flushes the queue pair.
	StateDisconnected
	// StateFailed: the connection was refused, the peer can not be reached, or the
	// device was removed. The caller can only close the ID. Reject, a failed Accept,
	// DeviceRemoval, ConnectError, Unreachable and Rejected enter this state. During a
	// lookup in the UDP port space, AddrError enters this state too.
	StateFailed
	// StateClosed: Close was called. All other calls return verbs.ErrClosed.
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

// A StateError reports a call that is not allowed, usually because of the state of the
// ID. It matches verbs.ErrState.
type StateError struct {
	Call  string // name of the call, such as "accept"
	State State  // the state of the ID at the time of the call
	// Reason is set if the call is not allowed for another reason than the state, for
	// example because the ID has no device. Otherwise Reason is empty.
	Reason string
}

func (e *StateError) Error() string {
	if e.Reason != "" {
		return "not allowed: " + e.Reason
	}
	return "not allowed in state " + e.State.String()
}

// Is reports whether target is verbs.ErrState.
func (e *StateError) Is(target error) bool { return target == verbs.ErrState }

// call is a method whose use depends on the state of the ID.
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

// withoutQP reports whether the call needs an ID without a queue pair.
func (c call) withoutQP() bool {
	switch c {
	case callListen, callCreateQP, callInitQPAttr, callReadyQPAttr, callEstablish:
		return true
	}
	return false
}

// states is a set of states, with one bit for each state.
type states uint32

// setOf returns the set of the listed states.
func setOf(list ...State) (set states) {
	for _, s := range list {
		set |= 1 << s
	}
	return set
}

var (
	// liveStates has all states except StateClosed.
	liveStates = states(1<<StateClosed - 1)
	// addressingStates has the states in which an active ID has not called ResolveRoute
	// yet.
	addressingStates = setOf(StateIdle, StateBound, StateResolvingAddr, StateAddrResolved)
	// locatedStates has the states in which an ID can have a device and is not
	// connecting yet.
	locatedStates = setOf(StateBound, StateAddrResolved, StateResolvingRoute, StateRouteResolved, StateRequested)
	// answeredStates has the states in which the peer's parameters are known.
	answeredStates = setOf(StateResponded, StateRequested, StateAccepted, StateEstablished)
	// waitingStates has the states of a handshake that has not ended. The connection can
	// fail in them.
	waitingStates = setOf(StateConnecting, StateResponded, StateAccepted, StateDisconnectPending)
)

// sameState stands for the next state in a rule that does not change the state. It has
// the value of StateIdle, to which no rule leads.
const sameState = StateIdle

// A rule says in which states a call or event is possible, and the next state.
type rule[T call | EventType] struct {
	what T         // the call or the type of the event
	from states    // the states in which the call is legal, or the event possible
	ps   PortSpace // port space for which the rule holds; zero means both
	to   State     // the next state, or sameState
}

// follow returns the next state for a call or event. If no rule matches, follow() returns
// the current state and false.
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

// callRules has the calls that the manual pages allow. librdmacm also accepts these
// calls:
//
//   - Disconnect in place of Accept or Reject, which has no effect.
//   - An option that is set too late, which has no effect.
//   - Listen without Bind, which rdma_listen(3) forbids.
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
	{what: callNotify, from: setOf(StateAccepted), to: sameState}, // the state changes later, with the event Established
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
//   - On an established ID: the address of a neighbour has changed. The connection
//     continues.
//   - On an unanswered request: the transport has dropped the request to make room for
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
