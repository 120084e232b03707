package reactor

import (
	"sync"
	"time"
)

// publishEvery is the time between two updates of the published counters of a loop that
// is awake. The number is arbitrary.
const publishEvery = time.Millisecond

// publishedStats is a copy of the counters of a loop that other goroutines may read.
type publishedStats struct {
	when time.Duration // time of the copy, as Loop.clock.now

	mu    sync.Mutex
	stats Stats
}

// publish copies the counters to the field published. Unless force is true, it does so
// only if the last copy is older than publishEvery.
func (l *Loop) publish(force bool) {
	if !force && l.clock.now-l.published.when < publishEvery {
		return
	}
	l.published.when = l.clock.now
	s := l.snapshot()
	l.published.mu.Lock()
	defer l.published.mu.Unlock()
	l.published.stats = s
}

// snapshot returns the present counters: those in l.stats, and those of the clock, the
// mailbox, the devices and the engine.
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
		s.BufferBytes += d.slab.bytes() + d.classes.bytes()
		s.CQs += uint64(len(d.queues))
	}
	s.Busy, s.Spin, s.Slept, s.LongestTurn = l.clock.busy, l.clock.spinning, l.clock.slept, l.clock.longest
	s.Timers = uint64(l.timers.Len())
	s.Conns = uint64(l.liveConns)
	if l.index == 0 {
		// Any goroutine may answer a connection request, so the engine counts the answers. The
		// loop with index 0 adds them to its counters.
		s.Accepts, s.Rejects = l.engine.accepts.Load(), l.engine.rejects.Load()
	}
	return s
}

// Stats returns the counters of the loop. They are up to about a millisecond old. While
// the loop sleeps, they are those of the beginning of the sleep. Only Refused is always
// up to date. Any goroutine may call Stats, also after the loop has ended.
func (l *Loop) Stats() Stats {
	l.published.mu.Lock()
	defer l.published.mu.Unlock()
	s := l.published.stats
	s.Refused = l.mailbox.refused.Load()
	return s
}
