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
	firstRepeat = 256 * time.Millisecond
	askRepeat   = 1024 * time.Millisecond
	askRepeats  = 16
	lastRepeat  = 4608 * time.Millisecond
	// orphanRepeats is how often a wish to disconnect is repeated when the ID
	// is gone: for 22 s, or until its channel is closed. The kernel says it once
	// then, and a peer that only waits does not hear of it where that is lost.
	// With its ID a wish is repeated for as long as the kernel does; see
	// leaveTimeout.
	orphanRepeats = 8
	// readyRepeats is how often an RTU is repeated, for 22 s, unless data from the peer
	// shows that it has arrived. The protocol has no answer to an RTU, and a peer that
	// waits for the RTU may repeat its reply only once; see maySend.
	readyRepeats = 8
)

// A repeater has the last message of a carrier. Started, it sends that again and
// again, until it is stopped.
// The lock of the carrier's channel covers it.
type repeater struct {
	c     *wireCarrier
	mad   wire.MAD
	after time.Duration // until the next time
	left  int           // times; negative: without end
	asks  int           // how many of the next intervals are at most askRepeat
	timer deadline
}

func (r *repeater) init(c *wireCarrier) {
	r.c = c
	r.timer.fire = func(time.Time) { r.fire() }
}

func (r *repeater) running() bool { return r.timer.index > 0 }

// start begins to repeat the message, the next asks times at intervals of at most
// askRepeat.
func (r *repeater) start(asks int) {
	r.after, r.left, r.asks = firstRepeat, -1, asks
	r.wait(r.after)
}

// startReady begins to repeat an RTU, readyRepeats times.
func (r *repeater) startReady() {
	r.start(0)
	r.left = readyRepeats
}

// goOn continues the repetition after mayRepeat has stopped it, because the peer has
// sent another message.
func (r *repeater) goOn() {
	if !r.running() {
		r.wait(r.after)
	}
}

// wait puts the next time off.
func (r *repeater) wait(d time.Duration) {
	ch := r.c.ch
	ch.timers.start(&r.timer, ch.clock().Add(d))
}

func (r *repeater) stop() { r.c.ch.timers.stop(&r.timer) }

func (r *repeater) fire() {
	if r.left == 0 {
		if r.c.id == nil {
			r.c.drop()
		}
		return
	}
	if !r.c.mayRepeat() {
		if r.c.id == nil {
			// Without an ID nothing starts the repeater again.
			r.c.drop()
		}
		return // the repeater stops until goOn is called
	}
	r.left--
	r.now()
	most := lastRepeat
	if r.asks > 0 {
		r.asks--
		most = askRepeat
	}
	r.after = min(2*r.after, most)
	r.wait(r.after)
}

// now sends the message.
func (r *repeater) now() { r.c.transmit(&r.mad) }

// codeTime is the time that a code of five bits stands for: 4.096 µs * 2^c (IBTA
// vol. 1, 12.6.5).
func codeTime(code uint8) time.Duration { return 4096 * time.Nanosecond << (code & 31) }
