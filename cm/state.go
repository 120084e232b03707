package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// State is the state of an ID. An event changes the state when it is fetched, not when
// it arrives. Close leads from every state to StateClosed, and the event DeviceRemoval
// from every other state to StateFailed. An ID connects once: after StateFailed and
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
	// StateListening: requests arrive as ConnectRequest events, each with a new ID. Listen
	// enters this state.
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
	// StateConnecting, active side: the request was sent, and there is no answer yet
	// (REQ_SENT). Connect enters this state. Established and ConnectResponse leave it, and
	// so do the events of a failure: ConnectError, Unreachable and Rejected, and AddrError
	// in the UDP port space.
	StateConnecting
	// StateResponded, active side without a queue pair on the ID: the peer has accepted
	// (REP_RCVD). ConnectResponse enters this state; Establish, Reject, Disconnected, and
	// the events of a failure leave it.
	StateResponded
	// StateRequested, passive side: the request is not answered (REQ_RCVD). The ID of a
	// ConnectRequest event is created in this state. Accept, Reject, and Unreachable leave
	// it.
	StateRequested
	// StateAccepted, passive side: the peer has not confirmed, or Established was not
	// fetched yet (REP_SENT). Accept enters this state; Established, Disconnect,
	// Disconnected, and the events of a failure leave it.
	StateAccepted
	// StateDisconnectPending, passive side: as StateAccepted, but the queue pair is
	// flushed, and the connection ends as soon as the peer confirms (REP_SENT). Disconnect
	// enters this state. Established leads to StateDisconnecting; Disconnected and the
	// events of a failure leave it too.
	StateDisconnectPending
	// StateEstablished: the sides are connected, or in the UDP port space the lookup was
	// answered. Established and Establish enter this state, and Accept in the UDP port
	// space. Disconnect and Disconnected leave it.
	StateEstablished
	// StateDisconnecting: the disconnect request was sent, and the queue pair is flushed
	// (DREQ_SENT). Disconnect enters this state; Disconnected leaves it.
	StateDisconnecting
	// StateDisconnected: the connection has ended. Disconnected enters this state, and
	// Disconnect in the UDP port space. If the peer has disconnected first, it waits for
	// Disconnect or Close, and the queue pair is not flushed before.
	StateDisconnected
	// StateFailed: the connection was refused, the peer can not be reached, or the device
	// was removed. Reject and a failed Accept enter this state, and so do the events of
	// a failure and DeviceRemoval. Only Close is useful.
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
	Call   string // the call, such as "accept"
	State  State  // the state of the ID at the time of the call
	Reason string // the reason; empty if the state is the reason
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
// ID has at most one queue pair (rdma_create_qp(3)), and for the queue pair of an ID the
// library itself does the work of rdma_establish(3) and rdma_init_qp_attr(3).
func (c call) withoutQP() bool {
	switch c {
	case callListen, callCreateQP, callInitQPAttr, callReadyQPAttr, callEstablish:
		return true
	}
	return false
}

// states is a set of states, with one bit for each.
type states uint32

// in returns the set of the listed states.
func in(list ...State) (set states) {
	for _, s := range list {
		set |= 1 << s
	}
	return set
}

var (
	// live has all states except StateClosed.
	live = states(1<<StateClosed - 1)
	// addressing has the states of an active ID before ResolveRoute.
	addressing = in(StateIdle, StateBound, StateResolvingAddr, StateAddrResolved)
	// located has the states in which an ID can have a device and is not connecting yet.
	located = in(StateBound, StateAddrResolved, StateResolvingRoute, StateRouteResolved, StateRequested)
	// answered has the states in which the peer's parameters are known.
	answered = in(StateResponded, StateRequested, StateAccepted, StateEstablished)
	// waiting has the states between the request and the end of the handshake in which
	// the connection can fail.
	waiting = in(StateConnecting, StateResponded, StateAccepted, StateDisconnectPending)
)

// stays, as the target of a rule, means that the state does not change. StateIdle can be
// used for it because no rule leads to StateIdle.
const stays = StateIdle

// A rule says in which states of an ID a call is legal, or an event possible, and which
// state follows. The rule is for one port space, or, if ps is zero, for both.
type rule[T call | EventType] struct {
	what T
	from states
	ps   PortSpace
	to   State
}

// follow returns the next state and true, or false if no rule applies.
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

// callRules has the calls that the manual pages allow. Some calls that librdmacm accepts
// although they have no effect are errors here and therefore missing: Disconnect instead
// of Accept and Reject; an option that is set too late; Listen without Bind
// (rdma_listen(3) demands a bound ID, the kernel would choose an address).
var callRules = []rule[call]{
	{what: callBind, from: in(StateIdle), to: StateBound},
	{what: callListen, from: in(StateBound), to: StateListening},
	{what: callResolveAddr, from: in(StateIdle, StateBound), to: StateResolvingAddr},
	{what: callResolveRoute, from: in(StateAddrResolved), to: StateResolvingRoute},

	{what: callCreateQP, from: located, to: stays},
	{what: callInitQPAttr, from: located | answered | in(StateConnecting), to: stays},
	{what: callReadyQPAttr, from: answered, ps: TCP, to: stays},
	{what: callReadyQPAttr, from: located | answered | in(StateConnecting), ps: UDP, to: stays},

	{what: callConnect, from: in(StateRouteResolved), to: StateConnecting},
	{what: callAccept, from: in(StateRequested), ps: TCP, to: StateAccepted},
	{what: callAccept, from: in(StateRequested), ps: UDP, to: StateEstablished},
	{what: callReject, from: in(StateRequested, StateResponded), to: StateFailed},
	{what: callEstablish, from: in(StateResponded), to: StateEstablished},
	{what: callNotify, from: in(StateAccepted), to: stays}, // Established follows and changes the state
	{what: callDisconnect, from: in(StateConnecting, StateResponded), to: stays},
	{what: callDisconnect, from: in(StateAccepted), to: StateDisconnectPending},
	{what: callDisconnect, from: in(StateEstablished), ps: TCP, to: StateDisconnecting},
	{what: callDisconnect, from: in(StateEstablished), ps: UDP, to: StateDisconnected},
	{what: callDisconnect, from: in(StateDisconnectPending, StateDisconnecting, StateDisconnected, StateFailed), to: stays},
	{what: callMigrate, from: live, to: stays},

	{what: callSetTOS, from: addressing, to: stays},
	{what: callSetReuseAddr, from: live &^ in(StateListening), to: stays},
	{what: callClearReuseAddr, from: in(StateIdle), to: stays},
	{what: callSetAFOnly, from: in(StateIdle, StateBound), to: stays},
	{what: callSetAckTimeout, from: addressing | located, to: stays},
	{what: callSetMinRNRTimer, from: addressing | located, to: stays},
}

// eventRules has the events that an ID can get. Disconnected does not answer the peer
// and does not change the queue pair; Disconnect or Close does. Unreachable on an
// established ID reports a changed address of a neighbour and does not end the
// connection. Unreachable on the ID of an unanswered request reports that the transport
// has dropped the request to make room for others. Source: rdma_get_cm_event(3).
var eventRules = []rule[EventType]{
	{what: AddrResolved, from: in(StateResolvingAddr), to: StateAddrResolved},
	{what: AddrError, from: in(StateResolvingAddr), to: StateBound},
	{what: AddrError, from: in(StateConnecting), ps: UDP, to: StateFailed},
	{what: RouteResolved, from: in(StateResolvingRoute), to: StateRouteResolved},
	{what: RouteError, from: in(StateResolvingRoute), to: StateAddrResolved},

	{what: ConnectRequest, from: in(StateListening), to: stays},
	{what: ConnectResponse, from: in(StateConnecting), ps: TCP, to: StateResponded},
	{what: ConnectError, from: waiting, to: StateFailed},
	{what: Unreachable, from: waiting | in(StateRequested), to: StateFailed},
	{what: Unreachable, from: in(StateEstablished), to: stays},
	{what: Rejected, from: waiting, ps: TCP, to: StateFailed},
	{what: Established, from: in(StateConnecting, StateAccepted), to: StateEstablished},
	{what: Established, from: in(StateDisconnectPending), to: StateDisconnecting},
	{what: Disconnected, from: in(StateResponded, StateAccepted, StateDisconnectPending, StateEstablished, StateDisconnecting), ps: TCP, to: StateDisconnected},

	{what: TimewaitExit, from: in(StateDisconnected, StateFailed), ps: TCP, to: stays},
	{what: DeviceRemoval, from: live, to: StateFailed},
	{what: AddrChange, from: live, to: stays},
}
