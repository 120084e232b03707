package reactor

// A catchUp polls a CQ until the completions that were on it at the first poll have been
// handled. A connection does so before it ends because a time limit has passed: a loop
// that was delayed may not have handled completions that have arrived in time. The zero
// value is ready to use.
type catchUp struct {
	// Value of completionQueue.handled at which these completions have been handled. 0 if
	// no catchUp is in progress.
	end uint64
}

// poll polls the CQ once, and reports whether the completions have been handled. Until
// then, poll must be called again in the next turn of the loop. The number of calls is
// limited even if new completions arrive all the time: a CQ returns its completions in
// the order of their arrival, and has room for no more than its depth.
func (u *catchUp) poll(q *completionQueue) (done bool) {
	if u.end == 0 {
		u.end = q.handled + uint64(q.cq().Depth())
	}
	if !q.pollAgain() && q.handled < u.end {
		return false
	}
	u.reset()
	return true
}

// reset ends a catchUp that is in progress. The next poll begins another one.
func (u *catchUp) reset() { u.end = 0 }
