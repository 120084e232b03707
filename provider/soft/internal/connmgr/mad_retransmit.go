//go:build linux

package connmgr

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// The intervals between retransmissions double, from firstInterval up to maxInterval.
// The kernel always waits maxInterval.
//
// The first requestRetransmits intervals of a request are at most requestInterval. So a
// dial continues soon after an outage of the network.
const (
	firstInterval      = 256 * time.Millisecond
	requestInterval    = 1024 * time.Millisecond
	requestRetransmits = 16
	maxInterval        = 4608 * time.Millisecond
	// orphanRetransmits is how often a DREQ is retransmitted after the ID was destroyed.
	// This takes 22 s.
	orphanRetransmits = 8
	// rtuRetransmits is how often an RTU is retransmitted if no data of the peer
	// arrives. This takes 22 s.
	rtuRetransmits = 8
)

// A retransmitter sends the last message of a connection again until it is answered. The
// lock of the connection's channel guards it.
type retransmitter struct {
	c         *madConn
	mad       wire.MAD
	interval  time.Duration // time until the next retransmission
	remaining int           // number of retransmissions left; negative means no limit
	// Number of intervals left that are at most requestInterval. After them, intervals
	// are at most maxInterval.
	fastRemaining int
	timer         timerheap.Timer
}

func (r *retransmitter) init(c *madConn) {
	r.c = c
	r.timer.Owner = r
}

func (r *retransmitter) hasRTU() bool { return r.mad.Attribute() == wire.AttrRTU }

func (r *retransmitter) running() bool { return r.timer.Running() }

// start starts the retransmission of the message. The parameter fast is the first value
// of fastRemaining.
func (r *retransmitter) start(fast int) {
	r.interval, r.remaining, r.fastRemaining = firstInterval, -1, fast
	r.schedule(r.interval)
}

// startRTU starts to retransmit an RTU, at most rtuRetransmits times.
func (r *retransmitter) startRTU() {
	r.start(0)
	r.remaining = rtuRetransmits
}

// resume starts the timer again if it does not run. A copy of the peer's request allows
// more retransmissions.
func (r *retransmitter) resume() {
	if !r.running() {
		r.schedule(r.interval)
	}
}

func (r *retransmitter) schedule(d time.Duration) {
	ch := r.c.ch
	ch.startTimer(&r.timer, d)
}

func (r *retransmitter) stop() { r.c.ch.timers.Stop(&r.timer) }

// OnTimer implements timerheap.Owner. It sends the message again, and sets the timer
// again unless no retransmission is left.
func (r *retransmitter) OnTimer(*timerheap.Timer) {
	if r.remaining == 0 {
		if r.c.state == madOrphan {
			r.c.release()
		}
		return
	}
	if !r.c.mayRetransmit() {
		if r.c.state == madOrphan {
			// resume() is never called for an orphan, so the orphan ends here.
			r.c.release()
		}
		return // The timer does not run until resume() is called.
	}
	if isRequest(&r.mad) && !r.c.ch.acceptsFrom(r.c.remote) {
		// The peer's address has moved to this host. A process of any user could receive
		// the retransmission here.
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

func (r *retransmitter) sendNow() { r.c.transmit(&r.mad) }

// codeTime returns the time of a five-bit code: 4.096 µs * 2^code (IBTA vol. 1, 12.6.5).
// The code 0 has no special meaning.
func codeTime(code uint8) time.Duration {
	return max(verbs.AckTimeout(code), verbs.AckTimeoutUnit)
}
