package reactor

// A loopState is the state of a loop.
type loopState uint8

// The states, in order. A loop never returns to an earlier state, and may skip
// loopDroppingSilent and loopAborting.
const (
	// loopRunning: the loop accepts new connections. Engine.Stop posts Loop.drain(),
	// which leads to loopDraining.
	loopRunning loopState = iota
	// loopDraining: new connections fail with ErrShutdown, and existing ones close.
	// dropSilent leads to loopDroppingSilent, and abortConns to loopAborting. After the last
	// connection and request, finishTurn leads to loopEnded.
	loopDraining
	// loopDroppingSilent: as loopDraining, but the connections of silent peers end without
	// waiting for them. abortConns leads to loopAborting. After the last connection and
	// request, finishTurn leads to loopEnded.
	loopDroppingSilent
	// loopAborting: the connections end without waiting for their peers. After the last
	// connection and request, finishTurn leads to loopEnded.
	loopAborting
	// loopEnded: OnShutdown is running or has returned. The loop runs no more turns, and
	// Post fails.
	loopEnded
)
