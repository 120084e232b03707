package reactor

// A catchUp handles the completions that wait in a CQ when a time limit has passed. The
// awaited completion may be among them. The zero value is ready to use.
type catchUp struct {
	// The catchUp is complete when completionQueue.handled reaches this value. The value
	// is 0 if no catchUp is in progress.
	end uint64
}

// poll polls the CQ once. It returns true if all completions that came before the first
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
