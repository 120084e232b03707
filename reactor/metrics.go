package reactor

import (
	"iter"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A wakeCause is the reason why a sleep of a loop has ended.
type wakeCause uint8

// If several events end a sleep, only the first of them in this list counts.
const (
	wakeByCompletion wakeCause = iota // a completion
	wakeByConnection                  // a connection event
	wakeByDevice                      // an asynchronous event of a device
	wakeByPost                        // a posted function
	wakeByTimer                       // a timer
	wakeByWatch                       // a descriptor of Loop.Watch
	wakeByLimit                       // the timeout of RunOnce has passed, or Poll was called without a cause
	wakeBySafety                      // Config.Limits.SafetyTimeout has passed
)

// wakes returns the counter of the sleeps that ended for a cause.
func (s *Stats) wakes(c wakeCause) *uint64 {
	return [...]*uint64{
		&s.WakesCompletion, &s.WakesConnection, &s.WakesDevice, &s.WakesPost,
		&s.WakesTimer, &s.WakesWatch, &s.WakesLimit, &s.WakesSafety,
	}[c]
}

// Stats are the counters of a loop since it was made. For an engine they are the sums
// over its loops. The tag "help" describes a field. Busy, Spin and Slept are sums of
// intervals between clock readings.
//
// A value with the tag kind:"gauge" may decrease. A value with the tag kind:"max" is the
// largest value so far; for an engine, it is the maximum of the loops.
type Stats struct {
	Turns       uint64 `help:"turns of the loop"`
	Polls       uint64 `help:"polls of completion queues"`
	EmptyPolls  uint64 `help:"polls that found no completion"`
	Completions uint64 `help:"completions polled"`
	// Element i of Batches counts the turns that found 2^i to 2^(i+1)-1 completions on a
	// device. The last element has no upper end.
	Batches         [18]uint64 `help:"turns of the loop that found at least as many completions on a device as the name says, and fewer than twice as many"`
	LateCompletions uint64     `help:"completions whose connection was closed already"`

	Busy  time.Duration `help:"time awake with work"`
	Spin  time.Duration `help:"time awake without work"`
	Slept time.Duration `help:"time asleep, or between two calls of Poll of which the first has found no work"`
	// LongestTurn is the longest time between two clock readings of an awake loop.
	// Interruptions by the system count too. A loop made with NewLoop also counts as
	// awake between calls of RunOnce and Poll, unless Poll has returned false.
	LongestTurn time.Duration `help:"longest time between two readings of the clock while the loop was awake" kind:"max"`
	// LongestCallback and SlowCallbacks are 0 if Config.Limits.SlowCallback is 0.
	LongestCallback time.Duration `help:"duration of the longest callback" kind:"max"`
	SlowCallbacks   uint64        `help:"callbacks that took longer than Config.Limits.SlowCallback"`

	EpollChecks uint64 `help:"checks of epoll without sleeping"`
	Sleeps      uint64 `help:"times that the loop slept"`
	// If several events end a sleep, only the first of the following counts.
	WakesCompletion uint64 `help:"sleeps that a completion has ended"`
	WakesConnection uint64 `help:"sleeps that a connection event has ended"`
	WakesDevice     uint64 `help:"sleeps that an asynchronous event of a device has ended"`
	WakesPost       uint64 `help:"sleeps that a posted function has ended"`
	WakesTimer      uint64 `help:"sleeps that a timer has ended"`
	WakesWatch      uint64 `help:"sleeps that a descriptor of Watch has ended"`
	WakesLimit      uint64 `help:"sleeps that lasted for the timeout of RunOnce, and calls of Poll without another cause"`
	WakesSafety     uint64 `help:"sleeps that Config.Limits.SafetyTimeout has ended"`

	Arms    uint64 `help:"times that a completion queue was armed"`
	Events  uint64 `help:"events of completion channels"`
	Acks    uint64 `help:"calls that acknowledged events of completion channels"`
	Rescues uint64 `help:"lost events, found by the safety timeout: a fault of the device"`

	// Posted also counts functions of the library, such as one for each call of Dial.
	Posted  uint64 `help:"posted functions that were called"`
	Refused uint64 `help:"functions that Post and PostWait refused: the loop had ended, too many functions waited, or the context was done"`
	Timers  uint64 `help:"timers that are set" kind:"gauge"`

	Messages      uint64 `help:"messages passed to OnMessage"`
	MessageBytes  uint64 `help:"bytes of the messages that were passed to OnMessage" unit:"bytes"`
	Discarded     uint64 `help:"messages that no callback got: received after Close, Abort or a time limit, or discarded by OnLongMessage"`
	Unreplaced    uint64 `help:"messages that the application kept without memory for another receive buffer"`
	Accepted      uint64 `help:"operations for which the call returned nil"`
	Confirmed     uint64 `help:"operations that have succeeded"`
	Failed        uint64 `help:"operations that have failed"`
	SendDoorbells uint64 `help:"calls that posted send requests"`
	SendRequests  uint64 `help:"send requests posted"`
	RecvDoorbells uint64 `help:"calls that posted receive buffers"`
	QueueFull     uint64 `help:"operations refused with ErrWouldBlock"`
	RNRErrors     uint64 `help:"requests that failed because the peer had no receive buffer"`
	Flushes       uint64 `help:"requests that were flushed"`
	Keepalives    uint64 `help:"keepalive probes posted"`

	Conns         uint64 `help:"connections that are open, opening or closing" kind:"gauge"`
	Dials         uint64 `help:"connections that Dial began to open"`
	DialErrors    uint64 `help:"calls of OnDialError"`
	Requests      uint64 `help:"requests passed to OnConnectRequest"`
	Accepts       uint64 `help:"requests accepted by the application"`
	AcceptErrors  uint64 `help:"calls of OnAcceptError"`
	NoResources   uint64 `help:"requests rejected with cm.RejectNoResources, before or after Accept"`
	Rejects       uint64 `help:"requests rejected by the application, or because of a shutdown"`
	Expired       uint64 `help:"requests rejected after Config.Limits.DecisionTimeout"`
	Opened        uint64 `help:"calls of OnOpen"`
	Closed        uint64 `help:"calls of OnClose"`
	DrainTimeouts uint64 `help:"connections that ended with ErrDrainTimeout"`
	BufferBytes   uint64 `help:"bytes of the registered receive and send buffers, also of leased ones" unit:"bytes" kind:"gauge"`
	// LargeBufferBytes is a part of BufferBytes.
	LargeBufferBytes uint64 `help:"bytes of the buffers that are larger than Config.MaxMessage: for large leases and long messages" unit:"bytes" kind:"gauge"`
	// RegionBytes is a number of the engine. The loop with index 0 has it.
	RegionBytes uint64 `help:"bytes of the regions of the engine: Engine.Alloc, Register and MapFile" unit:"bytes" kind:"gauge"`
	CQs         uint64 `help:"open completion queues; a loop has one or more for each device" kind:"gauge"`
}

// countBatch counts a turn of the loop that found n completions on a device.
func (s *Stats) countBatch(n int) {
	s.Batches[min(bits.Len(uint(n))-1, len(s.Batches)-1)]++
}

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
		s.BufferBytes += d.pool.Bytes()
		s.LargeBufferBytes += d.pool.LargeBytes()
		s.CQs += uint64(len(d.queues))
	}
	s.Busy, s.Spin, s.Slept, s.LongestTurn = l.clock.busy, l.clock.spinning, l.clock.slept, l.clock.longest
	if l.state != loopEnded { // After the end, timers that are set do not run.
		s.Timers = uint64(l.timers.Len())
	}
	s.Conns = uint64(l.liveConns)
	if l.index == 0 {
		// Any goroutine may answer a connection request, so the engine counts the answers. The
		// loop with index 0 adds them to its counters.
		s.Accepts, s.Rejects = l.engine.accepts.Load(), l.engine.rejects.Load()
	}
	return s
}

// Stats returns the counters of the loop. They are up to about a millisecond old. While
// the loop sleeps, they are those of the beginning of the sleep, and while a callback does not
// return, those of a time before it. Only Refused and RegionBytes are always up to date. Stats
// never waits for the loop. Any goroutine may call it, also after the loop has ended: then the
// gauges are 0. During OnShutdown there are no connections and timers.
func (l *Loop) Stats() Stats {
	l.published.mu.Lock()
	defer l.published.mu.Unlock()
	s := l.published.stats
	s.Refused = l.mailbox.refused.Load()
	if l.index == 0 {
		s.RegionBytes = l.engine.regions.bytes.Load()
	}
	return s
}

// All returns the counters in the order of the fields of Stats, for a program that lists or
// exports all of them. The name of a counter is that of the field in lower case, such as
// "empty_polls". For an element of Batches it ends with the smallest number of completions,
// such as "batches_16". Durations are in nanoseconds. Package metrics, a module of its own,
// exports the counters to Prometheus and expvar.
func (s Stats) All() iter.Seq[verbs.Counter] {
	return func(yield func(verbs.Counter) bool) {
		fields := reflect.ValueOf(&s).Elem()
		for _, f := range statFields() {
			c := f.Counter
			if c.Value = f.load(fields); !yield(c) {
				return
			}
		}
	}
}

// Add adds the counters of o to s. A counter with the tag kind:"max" becomes the greater
// of the two values.
func (s *Stats) Add(o *Stats) {
	sums, others := reflect.ValueOf(s).Elem(), reflect.ValueOf(o).Elem()
	for _, f := range statFields() {
		if f.kind == "max" {
			f.store(sums, max(f.load(sums), f.load(others)))
		} else {
			f.store(sums, f.load(sums)+f.load(others))
		}
	}
}

// Sub returns what was counted since an earlier call of Stats of the same loop or engine, for
// rates. A value that is no counter, with the tag kind:"gauge" or kind:"max", stays as it is.
func (s Stats) Sub(earlier Stats) Stats {
	now, before := reflect.ValueOf(&s).Elem(), reflect.ValueOf(&earlier).Elem()
	for _, f := range statFields() {
		if f.kind == "" {
			f.store(now, f.load(now)-f.load(before))
		}
	}
	return s
}

// A statField describes a field of Stats, or an element of an array field. The Counter has
// no value.
type statField struct {
	verbs.Counter
	kind    string // the tag kind
	field   int    // index of the field
	element int    // index in the array; -1 if the field is no array
}

// statFields returns all fields, in the order of Stats. It uses reflection, so new fields need
// not be listed.
var statFields = sync.OnceValue(func() (all []statField) {
	for i, stats := 0, reflect.TypeFor[Stats](); i < stats.NumField(); i++ {
		field := stats.Field(i)
		tag := field.Tag
		f := statField{
			Counter: verbs.Counter{Name: snakeCase(field.Name), Help: tag.Get("help"), Unit: tag.Get("unit"), Gauge: tag.Get("kind") != ""},
			kind:    tag.Get("kind"), field: i, element: -1,
		}
		if field.Type == reflect.TypeFor[time.Duration]() {
			f.Unit = "nanoseconds"
		}
		if field.Type.Kind() != reflect.Array {
			all = append(all, f)
			continue
		}
		for name := f.Name; f.element+1 < field.Type.Len(); {
			f.element++
			f.Name = name + "_" + strconv.Itoa(1<<f.element)
			all = append(all, f)
		}
	}
	return all
})

// in returns the field, or the element, of a Stats.
func (f *statField) in(stats reflect.Value) reflect.Value {
	v := stats.Field(f.field)
	if f.element >= 0 {
		v = v.Index(f.element)
	}
	return v
}

// load returns the value. A duration is in nanoseconds.
func (f *statField) load(stats reflect.Value) uint64 {
	v := f.in(stats)
	if v.CanInt() {
		return uint64(v.Int())
	}
	return v.Uint()
}

// store sets the value.
func (f *statField) store(stats reflect.Value, n uint64) {
	if v := f.in(stats); v.CanInt() {
		v.SetInt(int64(n))
	} else {
		v.SetUint(n)
	}
}

// snakeCase returns a field's name in lower case with "_" between its words: EmptyPolls
// becomes empty_polls, and RNRErrors rnr_errors.
func snakeCase(name string) string {
	var b strings.Builder
	for i := range len(name) {
		begins := i > 0 && unicode.IsUpper(rune(name[i])) &&
			(unicode.IsLower(rune(name[i-1])) || i+2 < len(name) && unicode.IsLower(rune(name[i+1])))
		if begins {
			b.WriteByte('_')
		}
		b.WriteByte(name[i])
	}
	return strings.ToLower(b.String())
}
