package reactor

// ConnState is the state of a connection. The comment of package reactor has a diagram of
// the states and their transitions.
type ConnState uint8

// The states, in the order in which a connection passes through them. A connection may
// skip states. Each state except StateOpen and StateClosed has a time limit.
const (
	// StateDialing: the address and the route of the peer are being resolved.
	StateDialing ConnState = iota
	// StateConnecting: the connection has a queue pair, and this side has sent or accepted
	// the connection request.
	StateConnecting
	// StateOpen: OnOpen was called. The state ends with Close, Abort, a failure or a
	// disconnect of the peer.
	StateOpen
	// StateDraining: this side has called Close, and not all sends are confirmed.
	StateDraining
	// StateClosing: the reason for OnClose is known, and the queues are being flushed.
	StateClosing
	// StateDisconnecting: OnClose was called, and the peer has not disconnected yet.
	StateDisconnecting
	// StateClosed: all resources of the connection are released.
	StateClosed
)

// String returns the name of the state, such as "open".
func (s ConnState) String() string {
	names := [...]string{"dialing", "connecting", "open", "draining", "closing", "disconnecting", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown connection state"
}

// A connState is the state of a connection, as the loop sees it. The application sees a
// ConnState, which stands for one or more connStates: see coarse. Most states have a
// time limit, which is measured with Conn.stateTimer.
type connState uint8

// The states, in the order in which a connection passes through them.
const (
	// stateDialing: the address and the route of the peer are being resolved, or the ID
	// of a request that was accepted is being moved to the loop. Every connection begins
	// in this state, and has no queue pair in it. makeQP leads to stateConnecting, a
	// failure to stateOpenFailed. The time limit is Config.ConnectTimeout or
	// DialOptions.Timeout, for this state and the next one together.
	stateDialing connState = iota

	// stateConnecting: the connection has a queue pair, and this side has sent or accepted
	// the connection request. Received messages are held. cm.Established leads to stateOpen,
	// a failure or the time limit to stateOpenFailed.
	stateConnecting

	// stateOpenFailed: the connection could not be opened, and closeReason has the error.
	// The next call of advance calls OnDialError or OnAcceptError, and destroys the
	// connection. enterClosing does not do this at once, because its caller may still use
	// the connection. If the error may be only the effect of an event of the device, the
	// connection first waits until the events of the device were handled, for at most
	// disconnectTimeout. Events that would continue the opening are ignored.
	stateOpenFailed

	// stateOpen: OnOpen was called, and the application may send. Close leads to
	// stateDraining; Abort, a failure and cm.Disconnected lead to stateCloseBegun. There is
	// no time limit.
	stateOpen

	// stateDraining: the application has called Close, and not all sends are confirmed.
	// Nothing more is accepted for sending, and received messages are discarded. Four
	// things lead to stateCloseBegun: the confirmation of the last send, a failure,
	// cm.Disconnected, and the time limit. The time limit is Config.DrainTimeout, and
	// begins with the first call of drain. When the last send is confirmed, drain enters
	// stateCloseBegun and chooses the next state at once.
	stateDraining

	// stateCloseBegun: closeReason has the reason why the connection ends. Receive
	// buffers are not posted any more. Messages that were received before this state was
	// entered are still delivered, unless the application has called Close or Abort. The
	// next call of advance chooses one of the next three states. There is no time limit.
	stateCloseBegun

	// stateAwaitingDisconnected: a request has failed with an error that a disconnect of
	// the peer usually causes, but cm.Disconnected was not received yet. The connection
	// waits, because OnClose should get the error of cm.Disconnected rather than that of
	// the request. After cm.Disconnected the next step of the connection leads to
	// stateAwaitingEmptyCQ, or to stateFlushing if a poll has already found the CQ empty
	// since that event. The connection also waits in this state, before or after
	// cm.Disconnected, until the events of the device were handled, if one of them may
	// be the reason: see awaitsDeviceEvents. A reason that is not provisional and the
	// time limit also lead to stateFlushing. The time limit is disconnectTimeout, for
	// this state and the next one together.
	stateAwaitingDisconnected

	// stateAwaitingEmptyCQ: cm.Disconnected was received, but the completions of earlier
	// requests may still be in the CQ. If the connection flushed its queues now,
	// requests that the peer has acknowledged would fail. Two things lead to
	// stateFlushing: a poll that finds the CQ empty, and the time limit.
	stateAwaitingEmptyCQ

	// stateFlushing: this side has disconnected, which flushes the queues. The last
	// posted request is a probe. The state ends when all posted requests and receive
	// buffers have completed, or after the time limit, flushTimeout. In both cases
	// reportClose calls failOutstanding, which fails the requests that are left, then
	// calls OnClose and enters stateDisconnecting.
	stateFlushing

	// stateDisconnecting: OnClose was called, and received messages are discarded. Three
	// things lead to stateClosed: cm.Disconnected, the removal of the device, and the
	// time limit, which is Config.DrainTimeout. If cm.Disconnected was received before
	// OnClose, the state ends in the next step.
	stateDisconnecting

	// stateClosed: destroy has released all resources of the connection. The loop does not
	// have the connection any more, but the application may.
	stateClosed
)

// A failure of the device shortens the states from stateCloseBegun to stateFlushing: at
// the next call of advance the connection calls OnClose and enters stateDisconnecting,
// without waiting. If the device was removed, the connection does not disconnect either.
// If the engine stops without waiting for peers, abortNow leads from each state to
// stateClosed.

// coarse returns the ConnState to which s belongs.
func (s connState) coarse() ConnState {
	switch s {
	case stateDialing:
		return StateDialing
	case stateConnecting, stateOpenFailed:
		return StateConnecting
	case stateOpen:
		return StateOpen
	case stateDraining:
		return StateDraining
	case stateCloseBegun, stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing:
		return StateClosing
	case stateDisconnecting:
		return StateDisconnecting
	}
	return StateClosed
}
