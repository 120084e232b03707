//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/verbs"

// rnrRetry counts how often a requester sends a request again after an RNR NAK, and waits
// before each retry. Only left needs to be set before use, and timer needs init.
type rnrRetry struct {
	left uint8 // retries left; verbs.RNRRetryForever means no limit
	// true after an RNR NAK was received, until the timer fires
	waiting bool
	timer   timer
}

// refused processes an RNR NAK with a timer code. It returns false if no retry is left
// (IBTA vol. 1, 9.7.5.2.8). Otherwise the timer fires after the time of the code.
func (r *rnrRetry) refused(code uint8) bool {
	if r.left == 0 {
		return false
	}
	if r.left < verbs.RNRRetryForever {
		r.left--
	}
	r.waiting = true
	r.timer.start(verbs.RNRDelay(code))
	return true
}

// fired records that the timer has fired, so that requests may be sent again.
func (r *rnrRetry) fired() { r.waiting = false }
