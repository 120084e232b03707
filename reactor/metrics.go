package reactor

import (
	"math/bits"
	"time"
)

// WakeCause is the reason why a sleep of a loop has ended.
type WakeCause uint8

// The values of WakeCause. They are the indexes of Stats.Wakes. If several events end a
// sleep, only the first of them in this list counts.
const (
	WakeByCompletion WakeCause = iota // woken by a completion
	WakeByConnection                  // woken by a connection event
	WakeByDevice                      // woken by an asynchronous event of a device
	WakeByPost                        // woken by a call of Post or Wake
	WakeByTimer                       // woken by a timer
	WakeByForeign                     // woken by a descriptor of Loop.Register
	WakeByLimit                       // the timeout of RunOnce has passed
	WakeBySafety                      // Config.SafetyTimeout has passed
	numWakeCauses
)

// String returns the name of the cause, such as "completion".
func (c WakeCause) String() string {
	names := [...]string{"completion", "connection", "device", "post", "timer", "foreign", "limit", "safety"}
	if int(c) < len(names) {
		return names[c]
	}
	return "unknown cause"
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
	Batches         [18]uint64 `help:"turns of the loop that found at least as many completions on a device as the name says, and fewer than twice as many" index:"power"`
	LateCompletions uint64     `help:"completions whose connection was closed already"`

	Busy  time.Duration `help:"time awake with work"`
	Spin  time.Duration `help:"time awake without work"`
	Slept time.Duration `help:"time asleep, or between Arm and RunOnce"`
	// LongestTurn is the longest time between two clock readings of an awake loop.
	// Interruptions by the system count too. A loop made with NewLoop also counts as
	// awake between calls of RunOnce, unless Arm was called.
	LongestTurn time.Duration `help:"longest time between two readings of the clock while the loop was awake" kind:"max"`
	// LongestCallback and SlowCallbacks are 0 if Config.SlowCallback is 0.
	LongestCallback time.Duration `help:"duration of the longest callback" kind:"max"`
	SlowCallbacks   uint64        `help:"callbacks that took longer than Config.SlowCallback"`

	EpollChecks uint64 `help:"checks of epoll without sleeping"`
	Sleeps      uint64 `help:"times that the loop slept"`
	// Element c of Wakes counts the sleeps that ended for WakeCause c.
	Wakes   [numWakeCauses]uint64 `help:"sleeps that ended for the cause in the name" index:"cause"`
	Arms    uint64                `help:"times that a completion queue was armed"`
	Events  uint64                `help:"events of completion channels"`
	Acks    uint64                `help:"calls that acknowledged events of completion channels"`
	Rescues uint64                `help:"lost events, found by the safety timeout: a fault of the device"`

	// Posted also counts functions of the library, such as one for each call of Dial.
	Posted  uint64 `help:"posted functions that were called"`
	Refused uint64 `help:"functions that Post refused because the loop had ended or too many functions waited"`
	Timers  uint64 `help:"timers that are set" kind:"gauge"`

	Messages      uint64 `help:"messages passed to OnMessage"`
	MessageBytes  uint64 `help:"bytes of the messages that were passed to OnMessage" unit:"bytes"`
	Discarded     uint64 `help:"messages received after Close or Abort"`
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
	Expired       uint64 `help:"requests rejected after Config.DecisionTimeout"`
	Opened        uint64 `help:"calls of OnOpen"`
	Closed        uint64 `help:"calls of OnClose"`
	DrainTimeouts uint64 `help:"connections that ended with ErrDrainTimeout"`
	BufferBytes   uint64 `help:"bytes of the registered receive and send buffers" unit:"bytes" kind:"gauge"`
	CQs           uint64 `help:"open completion queues; a loop has one or more for each device" kind:"gauge"`
}

// countBatch counts a turn of the loop that found n completions on a device.
func (s *Stats) countBatch(n int) {
	s.Batches[min(bits.Len(uint(n))-1, len(s.Batches)-1)]++
}
