//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// How often a message is repeated that has not been answered: soon at first, as
// a network loses single datagrams, then as rarely as the kernel does. What the
// active side asks is repeated every second for a quarter of a minute in between, so that
// a dial goes on within a second after an outage. What the passive side answers is
// not, since anybody can make it answer; it answers each repeated request.
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
	// shows that it has got one. Nothing else answers an RTU, and a peer that waits
	// for it may be allowed only one repetition of its reply; see maySend.
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
	asks  int           // how many of the next repeats come after at most askRepeat
	timer deadline
}

func (r *repeater) init(c *wireCarrier) {
	r.c = c
	r.timer.fire = func(time.Time) { r.fire() }
}

func (r *repeater) running() bool { return r.timer.index > 0 }

// start repeats the message, the next asks times at most askRepeat apart.
func (r *repeater) start(asks int) {
	r.after, r.left, r.asks = firstRepeat, -1, asks
	r.wait(r.after)
}

// startReady repeats an RTU a few times.
func (r *repeater) startReady() {
	r.start(0)
	r.left = readyRepeats
}

// goOn has a message repeated again that could not be, for the peer asked for it.
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
			r.c.drop() // Nothing goes on with it.
		}
		return // until goOn
	}
	if asks(&r.mad) && !r.c.mayAsk() {
		return
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
