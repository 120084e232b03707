//go:build linux

package connmgr

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// The intervals of retransmissions. The first interval is short, because usually a
// single datagram was lost. Each further interval is twice as long as the one before it,
// but not longer than maxInterval, the interval of the kernel.
//
// The first requestRetransmits intervals of a request are not longer than
// requestInterval. Together they take a quarter of a minute. So if the network fails for
// a few seconds, a dial continues within a second after the failure. For the replies of
// the passive side there is no such rule, because anybody can cause a reply by a request
// with a forged source address. But the passive side answers each copy of a request.
const (
	firstInterval      = 256 * time.Millisecond
	requestInterval    = 1024 * time.Millisecond
	requestRetransmits = 16
	maxInterval        = 4608 * time.Millisecond
	// orphanRetransmits is how often a DREQ is retransmitted after the ID was destroyed.
	// These retransmissions take 22 s, and end earlier if the channel is closed. The
	// kernel sends only one DREQ after the ID was destroyed. If that DREQ is lost and
	// the peer sends no data, the peer does not notice the end of the connection. As
	// long as the ID exists, a DREQ is retransmitted for dreqTimeout, as the kernel
	// does.
	orphanRetransmits = 8
	// rtuRetransmits is how often an RTU is retransmitted. The protocol has no answer to
	// an RTU. So the retransmission ends after 22 s, or earlier when data from the peer
	// shows that the RTU has arrived. This side can not wait for copies of the REP
	// instead: a soft device may send its REP only twice before the RTU has arrived; see
	// maySend.
	rtuRetransmits = 8
)

// A retransmitter has the last message of a connection. After start it sends the message
// again and again until it is stopped. The lock of the connection's channel guards it.
type retransmitter struct {
	c         *madConn
	mad       wire.MAD
	interval  time.Duration // time until the next retransmission
	remaining int           // number of retransmissions left; negative means no limit
	// fastRemaining is the number of intervals that follow and are limited to
	// requestInterval. The intervals after them are limited to maxInterval.
	fastRemaining int
	timer         timerheap.Timer
}

func (r *retransmitter) init(c *madConn) {
	r.c = c
	r.timer.Fire = func() { r.fire() }
}

// hasRTU reports whether the message is an RTU.
func (r *retransmitter) hasRTU() bool { return r.mad.Attribute() == wire.AttrRTU }

func (r *retransmitter) running() bool { return r.timer.Running() }

// start starts the retransmission of the message. The number of retransmissions has no
// limit. The parameter fast is the number of intervals that are limited to
// requestInterval. Later intervals are limited to maxInterval.
func (r *retransmitter) start(fast int) {
	r.interval, r.remaining, r.fastRemaining = firstInterval, -1, fast
	r.schedule(r.interval)
}

// startRTU starts to retransmit an RTU, at most rtuRetransmits times.
func (r *retransmitter) startRTU() {
	r.start(0)
	r.remaining = rtuRetransmits
}

// resume starts the timer again if the timer does not run because mayRetransmit has
// returned false. resume is called when a copy of the peer's request has arrived,
// because each copy allows more retransmissions.
func (r *retransmitter) resume() {
	if !r.running() {
		r.schedule(r.interval)
	}
}

// schedule sets the time of the next retransmission.
func (r *retransmitter) schedule(d time.Duration) {
	ch := r.c.ch
	ch.startTimer(&r.timer, d)
}

func (r *retransmitter) stop() { r.c.ch.timers.Stop(&r.timer) }

func (r *retransmitter) fire() {
	if r.remaining == 0 {
		if r.c.state == madOrphan {
			r.c.release()
		}
		return
	}
	if !r.c.mayRetransmit() {
		if r.c.state == madOrphan {
			// An orphan, which is a connection whose ID was closed, is removed here,
			// because resume is never called for it.
			r.c.release()
		}
		return // The timer does not run until resume is called.
	}
	if isRequest(&r.mad) && !r.c.ch.acceptsFrom(r.c.remote) {
		// The peer's address has moved to this host since the dial began. The request
		// fails, because on this host any user's process could receive a retransmission.
		r.c.id.noListener(errLocalOnly)
		return
	}
	r.remaining--
	r.sendNow()
	most := maxInterval
	if r.fastRemaining > 0 {
		r.fastRemaining--
		most = requestInterval
	}
	r.interval = min(2*r.interval, most)
	r.schedule(r.interval)
}

// sendNow sends the message.
func (r *retransmitter) sendNow() { r.c.transmit(&r.mad) }

// codeTime returns the time that a code of five bits stands for: 4.096 µs * 2^code (IBTA
// vol. 1, 12.6.5). For the code 0, verbs.AckTimeout returns no limit, but codeTime
// returns 4.096 µs.
func codeTime(code uint8) time.Duration {
	return max(verbs.AckTimeout(code), verbs.AckTimeoutUnit)
}
