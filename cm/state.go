package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// State is where an ID stands, as far as its events have been fetched. An ID
// connects once in its life: from StateFailed and StateDisconnected nothing
// leads back.
type State uint8

// States. The names in brackets are those of the kernel where they differ.
const (
	StateIdle           State = iota // made by NewID
	StateBound                       // has a local address
	StateListening                   // takes requests
	StateResolvingAddr               // ResolveAddr is under way (ADDR_QUERY)
	StateAddrResolved                // has a device
	StateResolvingRoute              // ResolveRoute is under way (ROUTE_QUERY)
	StateRouteResolved               // Connect is due
	StateConnecting                  // active: asked, not yet answered (REQ_SENT)
	StateResponded                   // active without QP: Establish or Reject is due (REP_RCVD)
	StateRequested                   // passive: Accept or Reject is due (REQ_RCVD)
	StateAccepted                    // passive: accepted, not yet confirmed (REP_SENT)
	StateEstablished                 // in the UDP port space: the lookup was answered
	StateDisconnecting               // Disconnect was called, Disconnected is due (DREQ_SENT)
	StateDisconnected                // Disconnected was fetched
	StateFailed                      // refused, unreachable or without device: Close is all that is left
	StateClosed                      // Close was called
)

var stateNames = [...]string{
	"idle", "bound", "listening", "resolving address", "address resolved", "resolving route", "route resolved",
	"connecting", "responded", "requested", "accepted", "established", "disconnecting", "disconnected", "failed", "closed",
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return unknown("state", uint64(s))
}

// A StateError says that an ID does not allow a call now. It matches
// verbs.ErrState.
type StateError struct {
	Call   string // "accept"
	State  State
	Reason string // empty: the state is the reason
}

func (e *StateError) Error() string {
	if e.Reason != "" {
		return "not allowed: " + e.Reason
	}
	return "not allowed in state " + e.State.String()
}

// Is makes errors.Is(err, verbs.ErrState) hold.
func (e *StateError) Is(target error) bool { return target == verbs.ErrState }

// call names a method that depends on the state of its ID.
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

// withoutQP tells whether the call is for IDs that have no queue pair:
// rdma_create_qp(3) makes one at most, and with one rdma_establish(3) and
// rdma_init_qp_attr(3) are the library's business.
func (c call) withoutQP() bool {
	switch c {
	case callListen, callCreateQP, callInitQPAttr, callReadyQPAttr, callEstablish:
		return true
	}
	return false
}

// states is a set of states.
type states uint32

func in(list ...State) (set states) {
	for _, s := range list {
		set |= 1 << s
	}
	return set
}

var (
	live       = states(1<<StateClosed - 1)
	addressing = in(StateIdle, StateBound, StateResolvingAddr, StateAddrResolved)
	located    = in(StateBound, StateAddrResolved, StateResolvingRoute, StateRouteResolved, StateRequested)
	answered   = in(StateResponded, StateRequested, StateAccepted, StateEstablished)
	waiting    = in(StateConnecting, StateResponded, StateAccepted)
)

// stays as target leaves the state as it is. Nothing leads back to StateIdle.
const stays = StateIdle

// A rule says that a call is legal, or an event possible, in some states of IDs
// of one port space (zero: of both), and where it leads.
type rule[T call | EventType] struct {
	what T
	from states
	ps   PortSpace
	to   State
}

// follow finds the rule that applies and returns the state it leads to.
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

// callRules are what the manual pages allow. Where librdmacm lets a call pass
// that has no effect, it is not here, and so an error: a second Disconnect, or
// one that was meant to cancel Connect (Close does); an option set too late;
// Listen without Bind, which the kernel would bind anywhere (rdma_listen(3)
// wants it bound).
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
	{what: callNotify, from: in(StateAccepted), to: stays}, // its event leads on
	{what: callDisconnect, from: in(StateEstablished), ps: TCP, to: StateDisconnecting},
	{what: callDisconnect, from: in(StateEstablished), ps: UDP, to: StateDisconnected},
	{what: callDisconnect, from: in(StateDisconnected), to: stays},
	{what: callMigrate, from: live, to: stays},

	{what: callSetTOS, from: addressing, to: stays},
	{what: callSetReuseAddr, from: live &^ in(StateListening), to: stays},
	{what: callClearReuseAddr, from: in(StateIdle), to: stays},
	{what: callSetAFOnly, from: in(StateIdle, StateBound), to: stays},
	{what: callSetAckTimeout, from: addressing | located, to: stays},
	{what: callSetMinRNRTimer, from: addressing | located, to: stays},
}

// eventRules are what can happen to an ID. DISCONNECTED answers nobody and leaves the
// queue pair alone: Disconnect or Close does that. Unreachable on an established ID
// says that a neighbour's address changed, and does not end the connection. On the ID
// of an unanswered request it says that the transport has dropped the request to make
// room for others. Source: rdma_get_cm_event(3).
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
	{what: Disconnected, from: in(StateResponded, StateAccepted, StateEstablished, StateDisconnecting), ps: TCP, to: StateDisconnected},

	{what: TimewaitExit, from: in(StateDisconnected, StateFailed), ps: TCP, to: stays},
	{what: DeviceRemoval, from: live, to: StateFailed},
	{what: AddrChange, from: live, to: stays},
}
