package reactor

import (
	"math/rand/v2"
	"time"
)

// A Latency has the times that a loop has measured since it was made, or the sum of several
// loops: see Config.LatencyEvery. Package runtime/metrics has the part of the Go runtime, for
// example /sched/pauses/total/gc:seconds and /sched/latencies:seconds: the example of
// Engine.Latency prints both.
type Latency struct {
	// Turn has the lengths of the turns that had work: how long the loop was away from its
	// completion queues. Turns without work do not count.
	Turn Histogram
	// Callback has the durations of the calls of the application: those that
	// Config.Limits.SlowCallback lists.
	Callback Histogram
	// Arrival has the times from the arrival of a message to its OnMessage. If the device knows
	// when a message has arrived (verbs.Caps.RecvTime), as that of package soft does on the wire
	// path, they have all of the delay in this host: in the socket, while the loop slept, and
	// behind other callbacks. Otherwise they begin with the turn that has polled the message. The
	// OnPart of a part of a long message counts, too. Messages that had to wait for OnOpen, because
	// of Conn.PauseRecv, or behind a long message, count only if the turn that has received them
	// also passes them on.
	Arrival Histogram
	// Oversleep says how late the loop woke up from sleeps that lasted until their end, a timer
	// or another limit. The loops of programs that wait for Loop.FD themselves have none.
	Oversleep Histogram
}

// Add adds the times of o.
func (l *Latency) Add(o *Latency) {
	l.Turn.Add(&o.Turn)
	l.Callback.Add(&o.Callback)
	l.Arrival.Add(&o.Arrival)
	l.Oversleep.Add(&o.Oversleep)
}

// Sub returns what was measured since an earlier call of Latency of the same loop or engine.
// For Histogram.Max see Histogram.Sub.
func (l Latency) Sub(earlier Latency) Latency {
	return Latency{
		Turn: l.Turn.Sub(earlier.Turn), Callback: l.Callback.Sub(earlier.Callback),
		Arrival: l.Arrival.Sub(earlier.Arrival), Oversleep: l.Oversleep.Sub(earlier.Oversleep),
	}
}

// Latency returns the times that the loop has measured so far, without stopping it. If
// Config.LatencyEvery is zero, it is empty. Any goroutine may call Latency, also after the loop
// has ended.
func (l *Loop) Latency() (now Latency) {
	if r := l.latency; r != nil {
		now = Latency{Turn: r.turn.read(), Callback: r.callback.read(), Arrival: r.arrival.read(), Oversleep: r.oversleep.read()}
	}
	return now
}

// LatencyEvery returns Config.LatencyEvery: zero means that the loops measure nothing. Any
// goroutine may call it.
func (e *Engine) LatencyEvery() int { return e.cfg.LatencyEvery }

// Latency returns the sums of what the loops have measured: see Loop.Latency.
func (e *Engine) Latency() Latency {
	var sum Latency
	for _, l := range e.loops {
		now := l.Latency()
		sum.Add(&now)
	}
	return sum
}

// A latencyRecorder measures some of the turns of a loop. Only the loop uses it, except that any
// goroutine may read the histograms.
type latencyRecorder struct {
	turn, callback, arrival, oversleep sharedHistogram

	every     uint64        // Config.LatencyEvery
	left      uint64        // number of turns up to the next one that is measured
	measuring bool          // true if the present turn is measured
	begin     time.Duration // time at which the present turn began, by the loop's clock, if measuring is true
	// random chooses the turns. A fixed distance could always meet the turns that check epoll,
	// or never.
	random rand.PCG
	// arriving is the last message that was received in a turn that is measured, and arrivedAt
	// the time of its arrival by the loop's clock.
	arriving  *Buffer
	arrivedAt time.Duration
}

// newLatencyRecorder returns the recorder for a loop, or nil if the loop measures nothing.
func newLatencyRecorder(every, loop int) *latencyRecorder {
	if every == 0 {
		return nil
	}
	r := &latencyRecorder{every: uint64(every)}
	r.random.Seed(uint64(loop), 0)
	r.choose()
	return r
}

// choose chooses the next turn that is measured. The average distance is every.
func (r *latencyRecorder) choose() { r.left = 1 + r.random.Uint64()%(2*r.every-1) }

// beginTurn is called at the beginning of a turn. If the turn is measured, it reads the clock.
func (r *latencyRecorder) beginTurn(l *Loop) {
	r.left--
	r.measuring = r.left == 0
	l.observed = l.observesAll || r.measuring
	if r.measuring {
		r.choose()
		r.begin, r.arriving = l.clock.readTurn(), nil
	}
}

// endTurn is called at the end of a turn that had work.
func (r *latencyRecorder) endTurn(l *Loop) {
	if r.measuring {
		r.turn.add(l.clock.read() - r.begin)
	}
}

// received is called for a message that was received. The parameter at is the time of its
// arrival in nanoseconds since 1970, or 0 if the device does not know it.
func (r *latencyRecorder) received(b *Buffer, at int64, k *clock) {
	if r.measuring {
		r.arriving, r.arrivedAt = b, r.begin
		if at != 0 {
			r.arrivedAt += time.Duration(at - k.timeOfTurn)
		}
	}
}

// callbackBegins is called when a callback of a turn that is measured begins. The parameter
// message is the message that OnMessage gets, or nil.
func (r *latencyRecorder) callbackBegins(now time.Duration, message *Buffer) {
	if message != nil && message == r.arriving {
		r.arrival.add(now - r.arrivedAt)
		r.arriving = nil
	}
}
