package reactor

// SetTurnFunc makes the loop call fn in every turn, after the completions. A nil fn ends
// the calls. Only the goroutine of the loop may call SetTurnFunc.
//
// A program can use fn to watch memory for WRITEs of a peer, which cause no completion
// on this side. fn should read the memory with verbs.LoadUint64.
//
// The result of fn says whether fn had work: see IdlePolicy and Config.SlowCallback. fn
// may call any method of the loop and its connections. Its requests are posted in the
// same turn.
//
// A loop with a turn function never sleeps, so it needs its own processor. RunOnce
// repeats turns until there is work or its timeout has passed. Loop.Arm always returns
// true. So an application that calls RunOnce(0) must not block between the calls.
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
	l.postStaged() // Answers must not wait for the other steps of the turn.
	return 1
}
