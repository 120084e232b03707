package reactor

import (
	"math/bits"
	"sync"
	"time"
)

// Cause is what ended a sleep.
type Cause uint8

// Causes, by which Stats.Wakes is indexed.
const (
	CauseCompletion Cause = iota // a completion
	CauseConnection              // a connection event
	CauseDevice                  // an event of a device
	CausePost                    // Post, Wake
	CauseTimer                   // a timer
	CauseForeign                 // a foreign descriptor
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

// Stats are the counters of a loop, or their sums over an engine, since the
// beginning. Counting reads no clock: times are those between two readings that
// the loop makes anyway, every few microseconds.
type Stats struct {
	Turns       uint64
	Polls       uint64     // of completion queues
	EmptyPolls  uint64     // that found nothing
	Completions uint64     // taken from the devices
	Batches     [18]uint64 // turns that found 2^i to 2^(i+1)-1 completions on a device
	// LateCompletions belonged to a connection that was gone.
	LateCompletions uint64

	Busy  time.Duration // awake with work
	Spin  time.Duration // awake without
	Slept time.Duration // in Wait, or between Arm and RunOnce
	// LongestTurn is the longest time between two looks at the clock while
	// awake: a turn, or a few short ones. It misses no stall. Between calls of
	// RunOnce an embedded loop counts as awake, unless Arm was called.
	LongestTurn time.Duration
	// LongestCallback, and SlowCallbacks that took longer than
	// Config.SlowCallback, are measured only if that is set.
	LongestCallback time.Duration
	SlowCallbacks   uint64

	Looks   uint64            // at epoll, without sleeping
	Sleeps  uint64            // and how they ended:
	Wakes   [numCauses]uint64 // by Cause
	Arms    uint64            // of completion queues
	Events  uint64            // of completion channels
	Acks    uint64            // calls that gave events back
	Rescues uint64            // lost events, found by the safety timeout: a fault of the device

	Posted  uint64 // posted functions run
	Refused uint64 // posted functions refused
	Timers  uint64 // armed now

	Messages      uint64 // received and delivered
	MessageBytes  uint64
	Discarded     uint64 // received after Close
	Accepted      uint64 // operations taken from the application
	Confirmed     uint64 // operations that ended well
	Failed        uint64 // operations that did not
	SendDoorbells uint64 // calls that posted sends
	SendRequests  uint64 // requests posted by them
	RecvDoorbells uint64 // calls that posted receive buffers
	QueueFull     uint64 // sends refused with ErrWouldBlock
	RNRErrors     uint64 // the peer had no receive buffer until the retries ran out
	Flushes       uint64 // requests flushed
	Keepalives    uint64 // probes sent

	Conns         uint64 // connections open, opening or closing now
	Dials         uint64
	DialErrors    uint64
	Requests      uint64 // requests passed to OnConnectRequest
	Accepts       uint64 // requests accepted
	AcceptErrors  uint64 // accepted requests that did not open
	NoResources   uint64 // requests refused with cm.RejectNoResources, before or after Accept
	Rejects       uint64 // requests rejected
	Expired       uint64 // requests that nobody answered in time
	Opened        uint64 // connections
	Closed        uint64 // connections
	DrainTimeouts uint64 // connections closed with sends not confirmed
	BufferBytes   uint64 // of registered receive and send buffers
	CQs           uint64 // completion queues open now; a loop has one or more for each device
}

// batch counts one poll that found n completions.
func (s *Stats) countBatch(n int) {
	s.Batches[min(bits.Len(uint(n))-1, len(s.Batches)-1)]++
}

// Add adds the counters of o; of the longest times it keeps the longer.
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

// counters are the plain ones.
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

// publishEvery is how old published counters of a busy loop may be.
const publishEvery = time.Millisecond

// A board is where a loop shows its counters to other goroutines.
type publishedStats struct {
	when time.Duration // of the last publication, in the loop's time

	mu    sync.Mutex
	stats Stats
}

// publish shows the counters, if it is time or it must be.
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

func (l *Loop) snapshot() Stats {
	s := l.stats
	for _, n := range l.devices {
		c := n.group.Stats()
		s.Polls += c.Polls
		s.EmptyPolls += c.EmptyPolls
		s.Completions += c.Completions
		s.Arms += c.Arms
		s.Events += c.Events
		s.Acks += c.Acks
		s.Rescues += c.Rescues
		s.BufferBytes += n.slab.bytes()
		s.CQs += uint64(len(n.queues))
	}
	s.Busy, s.Spin, s.Slept, s.LongestTurn = l.clock.busy, l.clock.spinning, l.clock.slept, l.clock.longest
	s.Refused = l.mailbox.refused.Load()
	s.Timers = uint64(len(l.timers.heap))
	s.Conns = uint64(l.liveConns)
	if l.index == 0 { // requests are answered anywhere
		s.Accepts, s.Rejects = l.engine.accepts.Load(), l.engine.rejects.Load()
	}
	return s
}

// Stats returns the counters as the loop last published them: before its last
// sleep, or about a millisecond ago. It may be called from any goroutine, also
// after the loop has ended.
func (l *Loop) Stats() Stats {
	l.published.mu.Lock()
	defer l.published.mu.Unlock()
	return l.published.stats
}
