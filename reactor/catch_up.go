package reactor

// A catchUp polls a CQ until all completions that were on the CQ at the first poll have
// been handled. A loop that was delayed may not have handled completions that have
// arrived in time. So before a time limit ends a connection, the connection uses a
// catchUp. The zero value is ready to use.
type catchUp struct {
	// When completionQueue.handled has reached this value, all completions that were on
	// the CQ at the first poll have been handled. The value is 0 if no catchUp is in
	// progress.
	end uint64
}

// poll polls the CQ once. It returns true if all completions that were on the CQ at the
// first poll have been handled. If it returns false, it must be called again in the next
// turn of the loop. The number of calls is limited even if new completions arrive all
// the time: a CQ returns its completions in the order of their arrival, and has room for
// no more than its depth.
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
