//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/verbs"

// rnrRetry counts how often a requester sends a request again after an RNR NAK, and
// waits before each retry. Before use, retriesLeft has to be set, and the method init of
// the field timer has to be called.
type rnrRetry struct {
	retriesLeft uint8 // remaining retries; verbs.RNRRetryForever means no limit
	// true after an RNR NAK was received, until the timer fires
	waiting bool
	timer   timer
}

// refused processes an RNR NAK. The parameter code is the code of the time to wait
// before the retry; see verbs.RNRDelay. refused returns false if no retry is left (IBTA
// vol. 1, 9.7.5.2.8). Otherwise it starts the timer with this time.
func (r *rnrRetry) refused(code uint8) bool {
	if r.retriesLeft == 0 {
		return false
	}
	if r.retriesLeft < verbs.RNRRetryForever {
		r.retriesLeft--
	}
	r.waiting = true
	r.timer.start(verbs.RNRDelay(code))
	return true
}

// fired records that the timer has fired, so that requests may be sent again.
func (r *rnrRetry) fired() { r.waiting = false }
