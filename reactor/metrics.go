package reactor

import (
	"math/bits"
	"sync"
	"time"
)

// Cause is the reason why a sleep of a loop has ended.
type Cause uint8

// The values of Cause, which are indexes of Stats.Wakes. If several events have ended a
// sleep, the cause that comes first in this list counts.
const (
	CauseCompletion Cause = iota // a completion
	CauseConnection              // a connection event
	CauseDevice                  // an asynchronous event of a device
	CausePost                    // a call of Post or Wake
	CauseTimer                   // a timer
	CauseForeign                 // a descriptor of Loop.Register
	CauseLimit                   // the timeout of RunOnce
	CauseSafety                  // Config.SafetyTimeout
	numCauses
)

func (c Cause) String() string {
	names := [...]string{"completion", "connection", "device", "post", "timer", "foreign", "limit", "safety"}
	if int(c) < len(names) {
		return names[c]
	}
	return "unknown cause"
}

// Stats are the counters of a loop since it was made, or their sums over the loops of an
// engine. The times are differences between two readings of the clock that the loop makes
// anyway, every few microseconds.
type Stats struct {
	Turns       uint64
	Polls       uint64 // polls of completion queues
	EmptyPolls  uint64 // polls that found no completion
	Completions uint64 // completions polled
	// Element i: turns of the loop that found 2^i to 2^(i+1)-1 completions on a device.
	Batches [18]uint64
	// LateCompletions are completions whose connection was closed already.
	LateCompletions uint64

	Busy  time.Duration // time awake with work
	Spin  time.Duration // time awake without work
	Slept time.Duration // time asleep, or between Arm and RunOnce
	// LongestTurn is the longest time between two readings of the clock while the loop was
	// awake: the duration of one turn, or of a few short ones. It includes times in which
	// the loop did not run although it was awake. Between calls of RunOnce an embedded loop
	// counts as awake, unless Arm was called.
	LongestTurn time.Duration
	// LongestCallback is the duration of the longest callback. SlowCallbacks is the number
	// of callbacks that took longer than Config.SlowCallback. Both are 0 if
	// Config.SlowCallback is 0.
	LongestCallback time.Duration
	SlowCallbacks   uint64

	Looks   uint64            // checks of epoll without sleeping
	Sleeps  uint64            // times that the loop slept
	Wakes   [numCauses]uint64 // element c: sleeps that ended for Cause c
	Arms    uint64            // times that a completion queue was armed
	Events  uint64            // events of completion channels
	Acks    uint64            // calls that acknowledged events of completion channels
	Rescues uint64            // lost events, found by the safety timeout: a fault of the device

	Posted  uint64 // posted functions that were called
	Refused uint64 // posted functions that were refused
	Timers  uint64 // timers that are set now

	Messages      uint64 // messages passed to OnMessage
	MessageBytes  uint64 // bytes of the messages that were passed to OnMessage
	Discarded     uint64 // messages received after Close or Abort
	Accepted      uint64 // operations for which the call returned nil
	Confirmed     uint64 // operations that have succeeded
	Failed        uint64 // operations that have failed
	SendDoorbells uint64 // calls that posted send requests
	SendRequests  uint64 // send requests posted
	RecvDoorbells uint64 // calls that posted receive buffers
	QueueFull     uint64 // operations refused with ErrWouldBlock
	RNRErrors     uint64 // requests that failed because the peer had no receive buffer
	Flushes       uint64 // requests that were flushed
	Keepalives    uint64 // keepalive probes posted

	Conns         uint64 // connections that are open, opening or closing now
	Dials         uint64 // connections dialed
	DialErrors    uint64 // calls of OnDialError
	Requests      uint64 // requests passed to OnConnectRequest
	Accepts       uint64 // requests accepted by the application
	AcceptErrors  uint64 // calls of OnAcceptError
	NoResources   uint64 // requests rejected with cm.RejectNoResources, before or after Accept
	Rejects       uint64 // requests rejected by the application, or because of a shutdown
	Expired       uint64 // requests rejected after Config.DecisionTimeout
	Opened        uint64 // calls of OnOpen
	Closed        uint64 // calls of OnClose
	DrainTimeouts uint64 // connections that ended with ErrDrainTimeout
	BufferBytes   uint64 // bytes of the registered receive and send buffers now
	CQs           uint64 // completion queues open now; a loop has one or more for each device
}

// countBatch counts a turn of the loop that found n completions on a device.
func (s *Stats) countBatch(n int) {
	s.Batches[min(bits.Len(uint(n))-1, len(s.Batches)-1)]++
}

// Add adds the counters of o to s. LongestTurn and LongestCallback become the greater of
// the two values.
func (s *Stats) Add(o *Stats) {
	for i := range s.Batches {
		s.Batches[i] += o.Batches[i]
	}
	for i := range s.Wakes {
		s.Wakes[i] += o.Wakes[i]
	}
	sums, others := s.counters(), o.counters()
	for i := range sums {
		*sums[i] += *others[i]
	}
	s.Busy += o.Busy
	s.Spin += o.Spin
	s.Slept += o.Slept
	s.LongestTurn = max(s.LongestTurn, o.LongestTurn)
	s.LongestCallback = max(s.LongestCallback, o.LongestCallback)
}

// counters returns pointers to the counters that Add adds, except the counters in arrays.
func (s *Stats) counters() []*uint64 {
	return []*uint64{
		&s.Turns, &s.Polls, &s.EmptyPolls, &s.Completions, &s.LateCompletions, &s.SlowCallbacks,
		&s.Looks, &s.Sleeps, &s.Arms, &s.Events, &s.Acks, &s.Rescues,
		&s.Posted, &s.Refused, &s.Timers,
		&s.Messages, &s.MessageBytes, &s.Discarded, &s.Accepted, &s.Confirmed, &s.Failed,
		&s.SendDoorbells, &s.SendRequests, &s.RecvDoorbells, &s.QueueFull, &s.RNRErrors, &s.Flushes, &s.Keepalives,
		&s.Conns, &s.Dials, &s.DialErrors, &s.Requests, &s.Accepts, &s.AcceptErrors, &s.NoResources, &s.Rejects, &s.Expired,
		&s.Opened, &s.Closed, &s.DrainTimeouts, &s.BufferBytes, &s.CQs,
	}
}

// publishEvery is how old the published counters of a loop that is awake may be. The
// number is arbitrary.
const publishEvery = time.Millisecond

// publishedStats is a copy of the counters of a loop that other goroutines may read.
type publishedStats struct {
	when time.Duration // time of the copy, in the loop's time

	mu    sync.Mutex
	stats Stats
}

// publish copies the counters to published if the parameter now is true, or if the last
// copy is older than publishEvery.
func (l *Loop) publish(now bool) {
	if !now && l.clock.now-l.published.when < publishEvery {
		return
	}
	l.published.when = l.clock.now
	s := l.snapshot()
	l.published.mu.Lock()
	defer l.published.mu.Unlock()
	l.published.stats = s
}

// snapshot returns the present counters.
func (l *Loop) snapshot() Stats {
	s := l.stats
	for _, d := range l.devices {
		c := d.group.Stats()
		s.Polls += c.Polls
		s.EmptyPolls += c.EmptyPolls
		s.Completions += c.Completions
		s.Arms += c.Arms
		s.Events += c.Events
		s.Acks += c.Acks
		s.Rescues += c.Rescues
		s.BufferBytes += d.slab.bytes()
		s.CQs += uint64(len(d.queues))
	}
	s.Busy, s.Spin, s.Slept, s.LongestTurn = l.clock.busy, l.clock.spinning, l.clock.slept, l.clock.longest
	s.Refused = l.mailbox.refused.Load()
	s.Timers = uint64(l.timers.Len())
	s.Conns = uint64(l.liveConns)
	if l.index == 0 { // any goroutine may answer a request, so the engine counts the answers
		s.Accepts, s.Rejects = l.engine.accepts.Load(), l.engine.rejects.Load()
	}
	return s
}

// Stats returns the counters of the loop as of its last sleep, or of about a millisecond
// ago if it has not slept since. It may be called from any goroutine, also after the loop
// has ended.
func (l *Loop) Stats() Stats {
	l.published.mu.Lock()
	defer l.published.mu.Unlock()
	return l.published.stats
}
