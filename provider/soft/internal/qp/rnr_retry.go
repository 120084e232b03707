//go:build linux

package qp

import "github.com/rdmaloop/rdmaloop/verbs"

// rnrRetry counts the retries after RNR NAKs, and waits before each retry. The fields
// retriesLeft and timer must be set before use.
type rnrRetry struct {
	retriesLeft uint8 // remaining retries; verbs.RNRRetryForever means no limit
	// true after an RNR NAK, until the timer fires
	waiting bool
	timer   Timer
}

// refused is called after an RNR NAK. The parameter code is the timer code of the NAK;
// see verbs.RNRDelay. refused starts the timer with the delay that the code means. It
// returns false if no retry is left (IBTA vol. 1, 9.7.5.2.8).
func (r *rnrRetry) refused(code uint8) bool {
	if r.retriesLeft == 0 {
		return false
	}
	if r.retriesLeft < verbs.RNRRetryForever {
		r.retriesLeft--
	}
	r.waiting = true
	r.timer.Start(verbs.RNRDelay(code))
	return true
}

// fired is called when the timer fires. Requests may then be sent again.
func (r *rnrRetry) fired() { r.waiting = false }
