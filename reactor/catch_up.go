package reactor

// A catchUp polls a CQ until all completions of the first poll's time are handled. A
// delayed loop uses it before a time limit ends a connection, because the completion
// that prevents this may be waiting. The zero value is ready to use.
type catchUp struct {
	// The catchUp is complete when completionQueue.handled reaches this value. The value
	// is 0 if no catchUp is in progress.
	end uint64
}

// poll polls the CQ once. It returns true if the completions that were there at the
// first poll have been handled. If not, the next turn of the loop calls it again. A CQ
// is in order and has a limited depth, so the calls end even if completions arrive all
// the time.
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
