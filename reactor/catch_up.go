package reactor

// A catchUp polls a CQ. It is complete when all completions are handled that the CQ had
// at the first poll. A connection uses a catchUp before a time limit ends the connection:
// if the loop was delayed, the CQ may have completions that the loop has not polled yet.
// The zero value is ready to use.
type catchUp struct {
	// The catchUp is complete when completionQueue.handled reaches this value. The value
	// is 0 if no catchUp is in progress.
	end uint64
}

// poll polls the CQ once. It returns true if the completions that the CQ had at the
// first poll are handled. Otherwise the next turn of the loop calls it again.
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
