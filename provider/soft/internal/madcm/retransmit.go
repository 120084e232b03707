//go:build linux

package madcm

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// The interval between two retransmissions doubles from firstInterval up to maxInterval.
//
// The first requestRetransmits intervals of a request are at most requestInterval. So a
// connection is established soon after an outage of the network.
const (
	firstInterval      = 256 * time.Millisecond
	requestInterval    = 1024 * time.Millisecond
	requestRetransmits = 16
	maxInterval        = 4608 * time.Millisecond
	// orphanRetransmits is the number of retransmissions of a DREQ after the ID was
	// destroyed. They take 22 s.
	orphanRetransmits = 8
	// rtuRetransmits is the number of retransmissions of an RTU if no data of the peer
	// arrives. They take 22 s.
	rtuRetransmits = 8
)

// A retransmitter retransmits the last message of a connection until it is answered. The
// lock of the connection's channel guards it.
type retransmitter struct {
	c         *madConn
	mad       wire.MAD
	interval  time.Duration // time until the next retransmission
	remaining int           // number of further retransmissions; negative if not limited
	// Number of further intervals that are at most requestInterval. Later intervals are
	// at most maxInterval.
	fastRemaining int
	timer         timerheap.Timer
}

func (r *retransmitter) init(c *madConn) {
	r.c = c
	r.timer.Owner = r
}

func (r *retransmitter) hasRTU() bool { return r.mad.Attribute() == wire.AttrRTU }

func (r *retransmitter) running() bool { return r.timer.Running() }

// start starts the timer that retransmits the message. The parameter fast is the initial
// value of fastRemaining.
func (r *retransmitter) start(fast int) {
	r.interval, r.remaining, r.fastRemaining = firstInterval, -1, fast
	r.schedule(r.interval)
}

// startRTU starts to retransmit an RTU, at most rtuRetransmits times.
func (r *retransmitter) startRTU() {
	r.start(0)
	r.remaining = rtuRetransmits
}

// resume starts the timer if it has stopped at the limit for half-open peers. It is
// called when a copy of the peer's request has arrived, because each copy raises that
// limit.
func (r *retransmitter) resume() {
	if !r.running() {
		r.schedule(r.interval)
	}
}

func (r *retransmitter) schedule(d time.Duration) {
	ch := r.c.ch
	ch.StartTimer(&r.timer, d)
}

func (r *retransmitter) stop() { r.c.ch.StopTimer(&r.timer) }

// OnTimer implements timerheap.Owner. It retransmits the message, and starts the timer
// for the next retransmission, if there is one.
func (r *retransmitter) OnTimer(*timerheap.Timer) {
	if r.remaining == 0 {
		if r.c.state == madOrphan {
			r.c.release()
		}
		return
	}
	if !r.c.mayRetransmit() {
		if r.c.state == madOrphan {
			// The orphan ends here, because resume() is never called for an orphan.
			r.c.release()
		}
		return // The next call of resume() starts the timer again.
	}
	if isRequest(&r.mad) && !r.c.ch.acceptsFrom(r.c.remote) {
		// The peer's address now belongs to this host, where a process of another user could
		// receive the retransmission.
		r.c.id.NoListener(connmgr.ErrLocalOnly)
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

// codeTime returns the time that a five-bit code means: 4.096 µs * 2^code (IBTA vol. 1,
// 12.6.5). The code 0 has no special meaning.
func codeTime(code uint8) time.Duration {
	return max(verbs.AckTimeout(code), verbs.AckTimeoutUnit)
}
