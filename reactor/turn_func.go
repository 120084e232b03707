package reactor

// SetTurnFunc makes the loop call fn once in every turn, right after the completions of
// the turn were handled. It replaces the function of an earlier call; nil means that no
// function is called. A WRITE of a peer has neither a completion nor an event at this
// side, unless it is a WRITE with immediate. A program that waits for such a WRITE
// therefore has to look at the memory again and again, which fn can do.
//
// While a function is set, the loop does not sleep, whatever its IdlePolicy is. It needs
// a processor for itself, as with IdleBusy. RunOnce calls fn again and again until there
// is work or its timeout has passed. Loop.Arm always returns true. So an application
// with an event loop of its own must not block while it waits for its descriptors: it
// polls them with a timeout of 0 between the calls of RunOnce(0).
//
// The result of fn says whether fn had work. A call that had work counts as a piece of
// work of the turn: in the result of RunOnce and in Stats.Busy. Only such calls are
// measured for Config.SlowCallback. Requests that fn makes are posted in the same turn.
// fn may call any method of the loop and of its connections, and SetTurnFunc. The loop
// calls fn until the loop ends, also while the engine shuts down.
//
// SetTurnFunc may be called only on the goroutine of the loop. A device writes to memory
// at any time, so fn should read the word for which it waits with verbs.LoadUint64.
func (l *Loop) SetTurnFunc(fn func() (worked bool)) {
	l.turnFunc = fn
	l.idle.stopSpin()
}

// callTurnFunc calls the function of SetTurnFunc, and returns how much work it had.
func (l *Loop) callTurnFunc() (work int) {
	begin := l.callbackStart()
	if !l.turnFunc() {
		return 0
	}
	l.callbackEnd(begin)
	l.postStaged() // answers are posted before the other steps of the turn
	return 1
}
