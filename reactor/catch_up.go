package reactor

// A catchUp polls a CQ before a time limit ends a connection. The loop may have been
// delayed, and the awaited completion may already be in the CQ. The zero value is ready
// to use.
type catchUp struct {
	// The catchUp is complete when completionQueue.handled reaches this value. 0 if no
	// catchUp is in progress.
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
