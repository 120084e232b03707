package reactor

// ConnState is the state of a connection. The comment of package reactor has a diagram of
// the states and their transitions.
type ConnState uint8

// The states of a connection, in the order in which it passes through them. A connection
// may skip states. All states except StateOpen and StateClosed have a time limit.
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
// ConnState: see coarse(). Conn.stateTimer measures the time limits.
type connState uint8

// The states, in the order in which a connection passes through them.
const (
	// stateDialing: the peer's address and route are being resolved, or the ID of an
	// accepted request is moved to the loop. makeQP leads to stateConnecting. A failure
	// leads to stateOpenFailed.
	//
	// Config.ConnectTimeout or DialOptions.Timeout limits stateDialing and
	// stateConnecting together.
	stateDialing connState = iota

	// stateConnecting: the connection request was sent or accepted. Received messages
	// are held. cm.Established leads to stateOpen. A failure or the time limit leads to
	// stateOpenFailed.
	stateConnecting

	// stateOpenFailed: opening has failed with the error in closeReason. The connection
	// may wait for the events of its device, for at most disconnectTimeout. Then
	// failOpen calls OnDialError or OnAcceptError.
	stateOpenFailed

	// stateOpen: OnOpen was called, and the application may send. Close leads to
	// stateDraining; Abort, a failure and cm.Disconnected lead to stateCloseBegun. There is
	// no time limit, except Config.DrainTimeout after StopHandler.OnStop.
	stateOpen

	// stateDraining: Close was called, and sends are unconfirmed. Received messages are
	// discarded. The last confirmation, a failure, cm.Disconnected or the end of
	// Config.DrainTimeout leads to stateCloseBegun.
	stateDraining

	// stateCloseBegun: closeReason has the reason. Messages that were received are
	// delivered, unless the application has called Close or Abort. The next call of
	// advance() chooses one of the next three states.
	stateCloseBegun

	// stateAwaitingDisconnected: the connection waits for an event that may be the true
	// reason for its end:
	//
	//   - An event of the device: see awaitsDeviceEvents.
	//   - cm.Disconnected, after a request has failed with a provisionalCause.
	//
	// Then chooseCloseState enters stateAwaitingEmptyCQ or stateFlushing.
	// disconnectTimeout limits stateAwaitingDisconnected and stateAwaitingEmptyCQ
	// together, and leads to stateFlushing.
	stateAwaitingDisconnected

	// stateAwaitingEmptyCQ: cm.Disconnected was received, but earlier completions may be
	// in the CQ. A flush now would fail requests that the peer has acknowledged. An empty
	// CQ or the time limit leads to stateFlushing.
	stateAwaitingEmptyCQ

	// stateFlushing: this side has disconnected, which flushes the queues. When all
	// sends and receives have completed, reportClose calls OnClose and enters
	// stateDisconnecting. After flushTimeout, reportClose fails the sends that have not
	// completed.
	stateFlushing

	// stateDisconnecting: OnClose was called. cm.Disconnected leads to stateClosed, also
	// if it was received in an earlier state. If the queue pair may still have a shared
	// receive buffer, it leads to stateAwaitingLastWQE instead. The removal of the device
	// and the end of Config.DrainTimeout lead to stateClosed.
	stateDisconnecting

	// stateAwaitingLastWQE: cm.Disconnected was received, and the queue pair may still
	// have a shared receive buffer: see mayHoldSharedBuffer. verbs.AsyncQPLastWQE, and
	// lastWQETimeout without this event, lead to stateClosed.
	stateAwaitingLastWQE

	// stateClosed: destroy() has released all resources of the connection. The loop does
	// not have the connection any more, but the application may.
	stateClosed
)

// If the device has failed, the states from stateCloseBegun to stateFlushing end early:
// the next call of advance() calls OnClose and enters stateDisconnecting. abortNow leads
// from every state to stateClosed.

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
	case stateDisconnecting, stateAwaitingLastWQE:
		return StateDisconnecting
	}
	return StateClosed
}
