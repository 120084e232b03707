//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// The intervals at which an unanswered message is repeated. They are short at first,
// for the loss of single datagrams, and in the end as long as the kernel's. In
// between, the active side repeats its requests every second for a quarter of a
// minute, so that a dial goes on within a second after an outage. The passive side
// does not repeat its answers that often, because anybody can make it answer; it
// answers each copy of a request.
const (
	firstInterval      = 256 * time.Millisecond
	requestInterval    = 1024 * time.Millisecond
	requestRetransmits = 16
	maxInterval        = 4608 * time.Millisecond
	// orphanRetransmits is how often a wish to disconnect is repeated when the ID
	// is gone: for 22 s, or until its channel is closed. The kernel says it once
	// then, and a peer that only waits does not hear of it where that is lost.
	// With its ID a wish is repeated for as long as the kernel does; see
	// dreqTimeout.
	orphanRetransmits = 8
	// rtuRetransmits is how often an RTU is repeated, for 22 s, unless data from the peer
	// shows that it has arrived. The protocol has no answer to an RTU, and a peer that
	// waits for the RTU may repeat its reply only once; see maySend.
	rtuRetransmits = 8
)

// A repeater has the last message of a carrier. Started, it sends that again and
// again, until it is stopped.
// The lock of the carrier's channel covers it.
type retransmitter struct {
	c             *madConn
	mad           wire.MAD
	interval      time.Duration // until the next time
	remaining     int           // times; negative: without end
	fastRemaining int           // how many of the next intervals are at most requestInterval
	timer         deadline
}

func (r *retransmitter) init(c *madConn) {
	r.c = c
	r.timer.fire = func(time.Time) { r.fire() }
}

func (r *retransmitter) running() bool { return r.timer.index > 0 }

// start begins to repeat the message, the next asks times at intervals of at most
// requestInterval.
func (r *retransmitter) start(asks int) {
	r.interval, r.remaining, r.fastRemaining = firstInterval, -1, asks
	r.schedule(r.interval)
}

// startRTU begins to repeat an RTU, rtuRetransmits times.
func (r *retransmitter) startRTU() {
	r.start(0)
	r.remaining = rtuRetransmits
}

// resume starts the timer again after mayRetransmit has stopped it. It is called when
// another message of the peer has arrived, which allows more retransmissions.
func (r *retransmitter) resume() {
	if !r.running() {
		r.schedule(r.interval)
	}
}

// wait puts the next time off.
func (r *retransmitter) schedule(d time.Duration) {
	ch := r.c.ch
	ch.timers.start(&r.timer, ch.clock().Add(d))
}

func (r *retransmitter) stop() { r.c.ch.timers.stop(&r.timer) }

func (r *retransmitter) fire() {
	if r.remaining == 0 {
		if r.c.id == nil {
			r.c.release()
		}
		return
	}
	if !r.c.mayRetransmit() {
		if r.c.id == nil {
			// Without an ID nothing starts the repeater again.
			r.c.release()
		}
		return // the repeater stops until resume is called
	}
	if isRequest(&r.mad) && !r.c.ch.acceptsFrom(r.c.remote) {
		// The address has moved to this host since the dial began.
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

// now sends the message.
func (r *retransmitter) sendNow() { r.c.transmit(&r.mad) }

// codeTime is the time that a code of five bits stands for: 4.096 µs * 2^c (IBTA
// vol. 1, 12.6.5).
func codeTime(code uint8) time.Duration { return 4096 * time.Nanosecond << (code & 31) }
