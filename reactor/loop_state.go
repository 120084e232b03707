package reactor

// A loopState is the state of a loop.
type loopState uint8

// The states, in the order in which a loop passes through them. A loop never returns to
// an earlier state, and may skip loopAborting.
const (
	// loopRunning: the loop accepts new connections. drain, which Engine.Stop posts, leads
	// to loopDraining.
	loopRunning loopState = iota
	// loopDraining: new connections fail with ErrShutdown, and existing ones close as by
	// Conn.Close. abortConns leads to loopAborting. Without connections and requests,
	// finishTurn leads to loopEnded.
	loopDraining
	// loopAborting: the connections end in the next turns, without waiting for their
	// peers. Without connections and requests, finishTurn leads to loopEnded.
	loopAborting
	// loopEnded: OnShutdown is running or has returned. The loop runs no more turns, and
	// Post fails.
	loopEnded
)
