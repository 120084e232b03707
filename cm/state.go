package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// State is the state of an ID. An event changes the state when the event is fetched, not
// when it arrives. The comments on the states leave out two changes: Close leads from
// every state to StateClosed, and the event DeviceRemoval leads from every state except
// StateClosed to StateFailed. An ID connects only once: in StateFailed and
// StateDisconnected it can not connect again.
type State uint8

// States of an ID. The names in brackets are the states of the Linux kernel, where they
// differ.
const (
	// StateIdle: the ID is new and has no address. NewID enters this state; Bind and
	// ResolveAddr leave it.
	StateIdle State = iota
	// StateBound: the ID has a local address, and a device unless the address is a
	// wildcard. Bind and AddrError enter this state; Listen and ResolveAddr leave it.
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
	// (REQ_SENT). Connect enters this state. Established and ConnectResponse leave it,
	// and so do ConnectError, Unreachable and Rejected, which report a failure. In the
	// UDP port space AddrError leaves it too.
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
	// before Established was fetched (REP_SENT). The queue pair is flushed. The
	// connection ends as soon as the peer confirms it or disconnects. Established leads
	// to StateDisconnecting, Disconnected to StateDisconnected, and ConnectError,
	// Unreachable and Rejected to StateFailed.
	StateDisconnectPending
	// StateEstablished: the sides are connected, or in the UDP port space the lookup was
	// answered. Established and Establish enter this state, and in the UDP port space
	// Accept. Disconnect and Disconnected leave it.
	StateEstablished
	// StateDisconnecting: the disconnect request was sent, and the queue pair is flushed
	// (DREQ_SENT). Disconnect enters this state; Disconnected leaves it.
	StateDisconnecting
	// StateDisconnected: the connection has ended. Disconnected enters this state, and in
	// the UDP port space Disconnect. The peer may have disconnected before this side has
	// called Disconnect. In that case the queue pair is not flushed, and the peer waits,
	// until this side calls Disconnect or Close.
	StateDisconnected
	// StateFailed: the connection was refused, the peer can not be reached, or the device
	// was removed. Reject, a failed Accept, the event DeviceRemoval, and the events
	// ConnectError, Unreachable and Rejected enter this state. The caller can only close
	// the ID.
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

// A StateError reports a call that the state of the ID does not allow. It matches
// verbs.ErrState.
type StateError struct {
	Call  string // name of the call, such as "accept"
	State State  // the state of the ID at the time of the call
	// Reason says why the call is refused in a state that otherwise allows it. It is
	// empty if the state is the reason.
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

// withoutQP reports whether the call is only allowed for an ID without a queue pair. An
// ID has at most one queue pair (rdma_create_qp(3)). If it has one, the library itself
// does the work of rdma_establish(3) and rdma_init_qp_attr(3).
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
	// live has all states except StateClosed.
	live = states(1<<StateClosed - 1)
	// addressing has the states in which an active ID has not called ResolveRoute yet.
	addressing = setOf(StateIdle, StateBound, StateResolvingAddr, StateAddrResolved)
	// located has the states in which an ID can have a device and is not connecting yet.
	located = setOf(StateBound, StateAddrResolved, StateResolvingRoute, StateRouteResolved, StateRequested)
	// answered has the states in which the peer's parameters are known.
	answered = setOf(StateResponded, StateRequested, StateAccepted, StateEstablished)
	// waiting has the states in which a request or its answer was sent and the handshake
	// has not ended. The connection can fail in these states.
	waiting = setOf(StateConnecting, StateResponded, StateAccepted, StateDisconnectPending)
)

// A rule whose field to is stays does not change the state. The constant stays has the
// value of StateIdle, which is free for this use because no rule leads to StateIdle.
const stays = StateIdle

// A rule says in which states of an ID a call is legal, or an event possible, and which
// state follows. The field ps is the port space for which the rule holds; zero means
// both.
type rule[T call | EventType] struct {
	what T
	from states
	ps   PortSpace
	to   State
}

// follow returns the state that follows a call or event in the state from, and true. If
// no rule applies, follow returns false.
func follow[T call | EventType](rules []rule[T], what T, ps PortSpace, from State) (State, bool) {
	for _, r := range rules {
		if r.what != what || r.from&(1<<from) == 0 || r.ps != 0 && r.ps != ps {
			continue
		}
		if r.to == stays {
			return from, true
		}
		return r.to, true
	}
	return from, false
}

// callRules has the calls that the manual pages allow. librdmacm also accepts some calls
// that have no effect; here they have no rule, so they are errors. These calls are
// Disconnect in place of Accept or Reject, and an option that is set too late. Listen
// without Bind has no rule either: rdma_listen(3) demands a bound ID, although the kernel
// would choose an address.
var callRules = []rule[call]{
	{what: callBind, from: setOf(StateIdle), to: StateBound},
	{what: callListen, from: setOf(StateBound), to: StateListening},
	{what: callResolveAddr, from: setOf(StateIdle, StateBound), to: StateResolvingAddr},
	{what: callResolveRoute, from: setOf(StateAddrResolved), to: StateResolvingRoute},

	{what: callCreateQP, from: located, to: stays},
	{what: callInitQPAttr, from: located | answered | setOf(StateConnecting), to: stays},
	{what: callReadyQPAttr, from: answered, ps: TCP, to: stays},
	{what: callReadyQPAttr, from: located | answered | setOf(StateConnecting), ps: UDP, to: stays},

	{what: callConnect, from: setOf(StateRouteResolved), to: StateConnecting},
	{what: callAccept, from: setOf(StateRequested), ps: TCP, to: StateAccepted},
	{what: callAccept, from: setOf(StateRequested), ps: UDP, to: StateEstablished},
	{what: callReject, from: setOf(StateRequested, StateResponded), to: StateFailed},
	{what: callEstablish, from: setOf(StateResponded), to: StateEstablished},
	{what: callNotify, from: setOf(StateAccepted), to: stays}, // the state changes later, with the event Established
	{what: callDisconnect, from: setOf(StateConnecting, StateResponded), to: stays},
	{what: callDisconnect, from: setOf(StateAccepted), to: StateDisconnectPending},
	{what: callDisconnect, from: setOf(StateEstablished), ps: TCP, to: StateDisconnecting},
	{what: callDisconnect, from: setOf(StateEstablished), ps: UDP, to: StateDisconnected},
	{what: callDisconnect, from: setOf(StateDisconnectPending, StateDisconnecting, StateDisconnected, StateFailed), to: stays},
	{what: callMigrate, from: live, to: stays},

	{what: callSetTOS, from: addressing, to: stays},
	{what: callSetReuseAddr, from: live &^ setOf(StateListening), to: stays},
	{what: callClearReuseAddr, from: setOf(StateIdle), to: stays},
	{what: callSetAFOnly, from: setOf(StateIdle, StateBound), to: stays},
	{what: callSetAckTimeout, from: addressing | located, to: stays},
	{what: callSetMinRNRTimer, from: addressing | located, to: stays},
}

// eventRules has the events that an ID can get.
//
// The event Disconnected alone neither answers the peer nor flushes the queue pair. The
// call of Disconnect does both, before or after the event; so does Close.
//
// The event Unreachable has two special meanings. On an established ID it reports that
// the address of a neighbour has changed, and the connection continues. On the ID of an
// unanswered request it reports that the transport has dropped the request to make room
// for others. Source: rdma_get_cm_event(3).
var eventRules = []rule[EventType]{
	{what: AddrResolved, from: setOf(StateResolvingAddr), to: StateAddrResolved},
	{what: AddrError, from: setOf(StateResolvingAddr), to: StateBound},
	{what: AddrError, from: setOf(StateConnecting), ps: UDP, to: StateFailed},
	{what: RouteResolved, from: setOf(StateResolvingRoute), to: StateRouteResolved},
	{what: RouteError, from: setOf(StateResolvingRoute), to: StateAddrResolved},

	{what: ConnectRequest, from: setOf(StateListening), to: stays},
	{what: ConnectResponse, from: setOf(StateConnecting), ps: TCP, to: StateResponded},
	{what: ConnectError, from: waiting, to: StateFailed},
	{what: Unreachable, from: waiting | setOf(StateRequested), to: StateFailed},
	{what: Unreachable, from: setOf(StateEstablished), to: stays},
	{what: Rejected, from: waiting, ps: TCP, to: StateFailed},
	{what: Established, from: setOf(StateConnecting, StateAccepted), to: StateEstablished},
	{what: Established, from: setOf(StateDisconnectPending), to: StateDisconnecting},
	{what: Disconnected, from: setOf(StateResponded, StateAccepted, StateDisconnectPending, StateEstablished, StateDisconnecting), ps: TCP, to: StateDisconnected},

	{what: TimewaitExit, from: setOf(StateDisconnected, StateFailed), ps: TCP, to: stays},
	{what: DeviceRemoval, from: live, to: StateFailed},
	{what: AddrChange, from: live, to: stays},
}
