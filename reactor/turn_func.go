package reactor

// SetTurnFunc makes the loop call fn once in every turn, after the completions; nil ends
// that. So a program can watch memory for WRITEs of a peer, which cause no completion or
// event here. Only the goroutine of the loop may call SetTurnFunc.
//
// The result of fn says whether fn had work: see IdlePolicy and Config.SlowCallback.
// Requests of fn are posted in the same turn. fn may call any method of the loop and its
// connections. A device writes to memory at any time, so fn reads with verbs.LoadUint64.
//
// With a function the loop never sleeps, so it needs its own processor. RunOnce repeats
// until there is work or its timeout has passed. Loop.Arm always returns true, so an
// application must not block between calls of RunOnce(0). The calls continue until the
// loop has ended.
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
