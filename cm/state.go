package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// State is the state of an ID. An event changes the state when it is fetched. An ID
// connects once: no transition leads back from StateFailed and StateDisconnected.
type State uint8

// States of an ID. The names in brackets are the states of the Linux kernel, where they
// differ.
const (
	StateIdle              State = iota // created by NewID
	StateBound                          // has a local address
	StateListening                      // accepts requests
	StateResolvingAddr                  // ResolveAddr was called (ADDR_QUERY)
	StateAddrResolved                   // bound to a device; ResolveRoute is next
	StateResolvingRoute                 // ResolveRoute was called (ROUTE_QUERY)
	StateRouteResolved                  // Connect is next
	StateConnecting                     // active: Connect was called, no answer yet (REQ_SENT)
	StateResponded                      // active, without QP: Establish or Reject is next (REP_RCVD)
	StateRequested                      // passive: Accept or Reject is next (REQ_RCVD)
	StateAccepted                       // passive: Accept was called, Established was not fetched yet (REP_SENT)
	StateDisconnectPending              // passive: as StateAccepted, and Disconnect was called (REP_SENT)
	StateEstablished                    // connected; in the UDP port space: the lookup was answered
	StateDisconnecting                  // Disconnect was called, Disconnected was not fetched yet (DREQ_SENT)
	StateDisconnected                   // Disconnected was fetched
	StateFailed                         // refused, unreachable or without device: only Close is useful
	StateClosed                         // Close was called
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
