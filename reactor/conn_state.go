package reactor

// ConnState is the state of a connection. The comment of package reactor has a diagram of
// the states and their transitions.
type ConnState uint8

// The states, in order. A connection may skip states. Each state except StateOpen and
// StateClosed has a time limit.
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
// ConnState: see coarse. Conn.stateTimer measures the time limits.
type connState uint8

// The states, in the order in which a connection passes through them.
const (
	// stateDialing: every connection begins here, without a queue pair. The peer's
	// address and route are being resolved, or the ID of an accepted request is moved to
	// the loop. makeQP leads to stateConnecting, a failure to stateOpenFailed. One time
	// limit applies to stateDialing and stateConnecting together: Config.ConnectTimeout
	// or DialOptions.Timeout.
	stateDialing connState = iota

	// stateConnecting: the connection has a queue pair, and this side has sent or accepted
	// the connection request. Received messages are held. cm.Established leads to stateOpen,
	// a failure or the time limit to stateOpenFailed.
	stateConnecting

	// stateOpenFailed: the connection could not be opened, and closeReason has the error.
	// Events of the opening are ignored. The connection may first wait for the events of
	// the device, for at most disconnectTimeout. Then failOpen destroys the connection,
	// and calls OnDialError or OnAcceptError.
	stateOpenFailed

	// stateOpen: OnOpen was called, and the application may send. Close leads to
	// stateDraining; Abort, a failure and cm.Disconnected lead to stateCloseBegun. There is
	// no time limit.
	stateOpen

	// stateDraining: the application has called Close, and sends are unconfirmed. Nothing
	// more is accepted, and received messages are discarded. The last confirmation, a
	// failure, cm.Disconnected and the time limit lead to stateCloseBegun. The time limit
	// is Config.DrainTimeout, from the first call of drain.
	stateDraining

	// stateCloseBegun: closeReason has the reason. Receive buffers are not posted any
	// more. Messages received before are delivered, unless the application has called
	// Close or Abort. The next advance chooses one of the next three states. There is no
	// time limit.
	stateCloseBegun

	// stateAwaitingDisconnected: the connection waits, because the true reason for its
	// end may be an event that has not been handled yet. There are two cases:
	//
	//   - awaitsDeviceEvents returns true: the connection waits for the device's events.
	//   - A request has failed with a provisionalCause, probably because the peer has
	//     disconnected: the connection waits for cm.Disconnected.
	//
	// After the wait, chooseCloseState enters stateAwaitingEmptyCQ or stateFlushing. One
	// time limit, disconnectTimeout, applies to stateAwaitingDisconnected and
	// stateAwaitingEmptyCQ together. It leads to stateFlushing.
	stateAwaitingDisconnected

	// stateAwaitingEmptyCQ: cm.Disconnected was received, but earlier completions may be
	// in the CQ. A flush now would fail requests that the peer has acknowledged. An empty
	// CQ or the time limit leads to stateFlushing.
	stateAwaitingEmptyCQ

	// stateFlushing: this side has disconnected, which flushes the queues. A probe was
	// posted behind the other sends. When all sends and receives have completed,
	// reportClose calls OnClose and enters stateDisconnecting. After flushTimeout,
	// reportClose does not wait any longer: it fails the sends that have not completed.
	stateFlushing

	// stateDisconnecting: OnClose was called, and received messages are discarded. The
	// connection waits for cm.Disconnected, and then enters stateClosed. If
	// cm.Disconnected was received in an earlier state, the next advance enters
	// stateClosed. If the device is removed, or after Config.DrainTimeout, the connection
	// also enters stateClosed.
	stateDisconnecting

	// stateClosed: destroy has released all resources of the connection. The loop does not
	// have the connection any more, but the application may.
	stateClosed
)

// If the device has failed, the states from stateCloseBegun to stateFlushing end early:
// the next advance calls OnClose and enters stateDisconnecting. If the device was
// removed, this side does not disconnect. If the engine stops without waiting for peers,
// abortNow leads from every state to stateClosed.

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
