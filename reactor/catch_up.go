package reactor

// A catchUp polls a CQ after a time limit has passed and before the connection ends. If
// the loop was delayed, the awaited completion may already be in the CQ, and then the
// connection need not end. The zero value is ready to use.
type catchUp struct {
	// end is the value of completionQueue.handled at which the catchUp is complete. It is
	// 0 if no catchUp is in progress.
	end uint64
}

// poll polls the CQ once. It returns true when all completions from before the first
// poll are handled.
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
