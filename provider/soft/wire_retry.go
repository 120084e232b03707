//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// lost goes back to the oldest packet without an answer, at the next occasion:
// once, until there is progress. Everything that was in flight behind the lost
// packet tells of the same loss.
func (l *wireLink) lost() {
	if l.recovering || l.q.waitingRNR {
		return
	}
	l.recovering = true
	l.repeat()
	l.schedule()
}

// repeat goes back because something got lost.
func (l *wireLink) repeat() {
	l.q.shard.counts.inc(completerRetryErr)
	l.shrink(l.flight)
	l.goBack()
}

// goBack makes the oldest packet without an answer the next one to be sent.
func (l *wireLink) goBack() {
	l.q.rewind()
	l.seq = l.q.acked
	l.account()
	l.peer.resume()
	l.pieces, l.quiet, l.touched, l.inquired = 0, 0, true, 0
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

// longestLook is how long a look at whether answers come may be away: 16.8 ms, the
// timeout with the code 12.
const longestLook = 4096 * time.Nanosecond << 12

// lookPeriod is how often that is looked, in one timeout.
func (l *wireLink) lookPeriod() time.Duration {
	return min(verbs.AckTimeout(l.q.attr.Timeout)/4, longestLook)
}

// watch makes sure that an answer is missed when it does not come. The timer is
// not set anew for each packet, and no clock is read: it is left running, and
// looks now and then whether there was something since it looked last. A loss is
// so noticed after one to one and a quarter times the timeout; up to four times
// are allowed (IBTA vol. 1, 9.7.6.1.3).
func (l *wireLink) watch() {
	if l.q.attr.Timeout > 0 && !l.retry.running() && l.q.sq.outstanding() {
		l.touched, l.silent = false, 0
		l.retry.start(l.lookPeriod())
	}
}

func (l *wireLink) onRetryTimer() {
	if !l.q.sq.outstanding() || !l.q.serves() {
		return
	}
	if l.touched || l.q.waitingRNR {
		l.watch()
		return
	}
	l.silent += l.lookPeriod()
	if l.silent >= verbs.AckTimeout(l.q.attr.Timeout) {
		l.timedOut()
		return
	}
	// It counts from the time of the last look, so that an owner that comes late
	// makes up for those that were missed.
	l.retry.again(l.lookPeriod())
	l.inquire()
}

func (l *wireLink) timedOut() {
	l.s.link.doubt(&l.to)
	if !l.tryAgain() {
		return
	}
	l.q.shard.counts.inc(localAckTimeoutErr)
	l.recovering = false
	l.repeat()
	l.transmit()
}

// inquire repeats the oldest unanswered packet, once after a silence that is much
// shorter than the timeout, a second by default. If only the last packets were lost,
// or their acknowledgement, there would be no NAK. The peer now acknowledges what it
// has, and the rest is sent again. The repetition does not count as a retry, because
// the timeout has not passed. TCP has tail loss probes (RFC 8985, 7).
func (l *wireLink) inquire() {
	if l.inquired > 0 || l.q.attr.RetryCount == 0 {
		return
	}
	flight := l.flight
	l.recovering = false
	l.goBack()
	l.touched, l.inquired = false, max(1, flight)
	l.transmit()
}
