//go:build linux

package connmgr

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Each interval between retransmissions is twice the one before, up to maxInterval, the
// kernel's interval.
//
// The first requestRetransmits intervals of a request are at most requestInterval. They
// take a quarter of a minute, so a dial continues within a second after a short network
// failure. Replies have no such rule, because a forged request can cause them. But each
// copy of a request is answered.
const (
	firstInterval      = 256 * time.Millisecond
	requestInterval    = 1024 * time.Millisecond
	requestRetransmits = 16
	maxInterval        = 4608 * time.Millisecond
	// orphanRetransmits is how often a DREQ is retransmitted after the ID was destroyed,
	// in 22 s. The kernel sends only one. If that is lost and the peer is silent, the
	// peer does not notice the end. While the ID exists, the limit is dreqTimeout, as in
	// the kernel.
	orphanRetransmits = 8
	// rtuRetransmits is how often an RTU is retransmitted, in 22 s. Nothing answers an
	// RTU, but data from the peer ends the retransmission. Waiting for copies of the REP
	// is not enough: a soft device may send it only twice; see maySend.
	rtuRetransmits = 8
)

// A retransmitter has the last message of a connection, and sends it from start to stop.
// The lock of the connection's channel guards it.
type retransmitter struct {
	c         *madConn
	mad       wire.MAD
	interval  time.Duration // time until the next retransmission
	remaining int           // number of retransmissions left; negative means no limit
	// Number of following intervals that are at most requestInterval. Later ones are at
	// most maxInterval.
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

// start starts to retransmit the message, without a limit of the number. The first fast
// intervals are at most requestInterval, and later ones at most maxInterval.
func (r *retransmitter) start(fast int) {
	r.interval, r.remaining, r.fastRemaining = firstInterval, -1, fast
	r.schedule(r.interval)
}

// startRTU starts to retransmit an RTU, at most rtuRetransmits times.
func (r *retransmitter) startRTU() {
	r.start(0)
	r.remaining = rtuRetransmits
}

// resume starts the timer again after mayRetransmit was false. It is called for each
// copy of the peer's request, which allows more retransmissions.
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
			// resume is never called for an orphan, so the orphan ends here.
			r.c.release()
		}
		return // The timer does not run until resume is called.
	}
	if isRequest(&r.mad) && !r.c.ch.acceptsFrom(r.c.remote) {
		// The peer's address has moved to this host, where a process of any user could
		// receive a retransmission.
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

// codeTime returns the time of a five-bit code: 4.096 µs * 2^code (IBTA vol. 1, 12.6.5).
// Unlike verbs.AckTimeout, it has no special meaning for 0.
func codeTime(code uint8) time.Duration {
	return max(verbs.AckTimeout(code), verbs.AckTimeoutUnit)
}
