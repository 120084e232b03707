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
type retransmitter struct {
	c        *madConn
	mad      wire.MAD
	interval time.Duration // until the next time
	left     int           // times; negative: without end
	fastLeft int           // how many of the next intervals are at most askRepeat
	timer    deadline
}

func (r *retransmitter) init(c *madConn) {
	r.c = c
	r.timer.fire = func(time.Time) { r.fire() }
}

func (r *retransmitter) running() bool { return r.timer.index > 0 }

// start begins to repeat the message, the next asks times at intervals of at most
// askRepeat.
func (r *retransmitter) start(asks int) {
	r.interval, r.left, r.fastLeft = firstRepeat, -1, asks
	r.wait(r.interval)
}

// startReady begins to repeat an RTU, readyRepeats times.
func (r *retransmitter) startReady() {
	r.start(0)
	r.left = readyRepeats
}

// resume continues the repetition after mayRepeat has stopped it, because the peer has
// sent another message.
func (r *retransmitter) resume() {
	if !r.running() {
		r.wait(r.interval)
	}
}

// wait puts the next time off.
func (r *retransmitter) wait(d time.Duration) {
	ch := r.c.ch
	ch.timers.start(&r.timer, ch.clock().Add(d))
}

func (r *retransmitter) stop() { r.c.ch.timers.stop(&r.timer) }

func (r *retransmitter) fire() {
	if r.left == 0 {
		if r.c.id == nil {
			r.c.release()
		}
		return
	}
	if !r.c.mayRepeat() {
		if r.c.id == nil {
			// Without an ID nothing starts the repeater again.
			r.c.release()
		}
		return // the repeater stops until resume is called
	}
	r.left--
	r.sendNow()
	most := lastRepeat
	if r.fastLeft > 0 {
		r.fastLeft--
		most = askRepeat
	}
	r.interval = min(2*r.interval, most)
	r.wait(r.interval)
}

// now sends the message.
func (r *retransmitter) sendNow() { r.c.transmit(&r.mad) }

// codeTime is the time that a code of five bits stands for: 4.096 µs * 2^c (IBTA
// vol. 1, 12.6.5).
func codeTime(code uint8) time.Duration { return 4096 * time.Nanosecond << (code & 31) }
