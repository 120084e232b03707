//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/verbs"

// lost goes back to the oldest packet without an answer, at the next occasion:
// once, until there is progress. Everything that was in flight behind the lost
// packet tells of the same loss.
func (l *wireLink) lost() {
	if l.recovering || l.q.waitingRNR {
		return
	}
	l.recovering = true
	l.q.shard.counts.inc(completerRetryErr)
	l.goBack()
	l.schedule()
}

// goBack makes the oldest packet without an answer the next one to be sent.
func (l *wireLink) goBack() {
	l.q.rewind()
	l.seq = l.q.acked
	l.pieces, l.quiet, l.touched = 0, 0, true
}

// tryAgain counts a retry, and gives up when there have been as many as are
// allowed (IBTA vol. 1, 9.7.6.1.1). Timeouts and sequence NAKs count together.
func (l *wireLink) tryAgain() bool {
	if l.tries >= l.q.attr.RetryCount {
		l.q.failOldest(verbs.StatusRetryExcErr)
		return false
	}
	l.tries++
	return true
}

// retryLooks is how often, in one timeout, it is looked whether answers come.
const retryLooks = 4

// watch makes sure that an answer is missed when it does not come. The timer is
// not set anew for each packet, and no clock is read: it is left running, and
// looks now and then whether there was something since it looked last. A loss is
// so noticed after one to one and a quarter times the timeout; up to four times
// are allowed (IBTA vol. 1, 9.7.6.1.3).
func (l *wireLink) watch() {
	timeout := verbs.AckTimeout(l.q.attr.Timeout)
	if timeout > 0 && !l.retry.running() && l.q.sq.outstanding() {
		l.touched, l.looks = false, 0
		l.retry.start(timeout / retryLooks)
	}
}

func (l *wireLink) onRetryTimer() {
	if !l.q.sq.outstanding() || !l.q.serves() {
		return
	}
	if l.looks++; l.touched || l.q.waitingRNR {
		l.touched, l.looks = false, 0
	}
	if l.looks < retryLooks {
		l.lookAgain()
		return
	}
	if !l.tryAgain() {
		return
	}
	l.q.shard.counts.inc(localAckTimeoutErr)
	l.q.shard.counts.inc(completerRetryErr)
	l.recovering = false
	l.goBack()
	l.s.link.doubt(&l.to)
	l.transmit()
	l.watch()
}

// lookAgain sets the timer for the next look. Without an answer it counts from the
// time of the last, so that an owner that comes late makes up for those it has
// missed.
func (l *wireLink) lookAgain() {
	period := verbs.AckTimeout(l.q.attr.Timeout) / retryLooks
	if l.looks == 0 {
		l.retry.start(period)
	} else {
		l.retry.again(period)
	}
}
