package reactor

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Config configures an engine or a loop. The zero value and nil mean the defaults. New
// copies the Config and does not modify it. New returns a *verbs.ParamError for a value
// that is out of range, or that exceeds a limit of a device of the provider.
type Config struct {
	// NumLoops is the number of loops. Zero means 1. If verbs.Caps.ProgressManual is
	// true, NumLoops must not exceed the number of completion vectors of the device. For
	// the soft provider that number is soft.Config.Vectors.
	NumLoops int
	// CPUs pins loops to CPUs. Loop i locks its goroutine to a thread, and pins the
	// thread to CPU CPUs[i mod len(CPUs)]. If CPUs is empty, goroutines are not locked
	// and threads are not pinned. CPUs must be empty for a loop made with NewLoop.
	// Pinning is meant for loops that spin; a loop that sleeps has lower tail latencies
	// when its goroutine is not locked. GOMAXPROCS should be greater than the number of
	// loops that spin. Otherwise other goroutines of the program take the processor of
	// such a loop for 10ms at a time.
	CPUs []int

	// Idle says what a loop does after a turn without work: see IdlePolicy. Zero means
	// IdleAdaptive. Loop.SetIdle changes the policy of a running loop.
	Idle IdlePolicy
	// SpinBudget is how long a loop with IdleAdaptive polls after its last work before it
	// sleeps. Zero means 50µs.
	SpinBudget time.Duration
	// SafetyTimeout is the longest time that a loop sleeps. After this time the loop
	// polls its completion queues. If it finds completions that raised no event, an
	// event was lost; Stats.Rescues counts these cases. Zero means 100ms.
	SafetyTimeout time.Duration
	// EpollEvery applies to a loop that does not sleep. It is the number of turns after
	// which the loop checks epoll for connection events, device events and events of
	// registered descriptors. Zero means 1024. While a connection is opening, a loop
	// checks at least every 16 turns.
	EpollEvery int
	// CompletionBudget is how many completions of one device a loop handles in one turn.
	// If a loop has several completion queues on the device, the number applies to their
	// sum, and a turn may exceed it by up to CompletionBudget-1. Zero means 64.
	CompletionBudget int
	// MaxPosted is how many functions passed to Loop.Post may wait on one loop. Zero
	// means 4096.
	MaxPosted int
	// SlowCallback is the duration after which a callback counts as slow:
	// Stats.SlowCallbacks counts the callbacks that took longer. Callbacks here are the
	// calls of the methods of Handler and ConnHandler, except OnBoot, OnShutdown and
	// OnListenError, and those calls of the function of SetTurnFunc that had work. Calls
	// of Config.Place, and of functions that were passed to Post, After or Register, are
	// not measured. The loop reads the clock before and after each measured call. Zero
	// means that no calls are measured.
	SlowCallback time.Duration

	// MaxInFlight is how many operations one connection may have outstanding. Without
	// SharedRecvBuffers it is also the number of receive buffers of a connection. The
	// device makes send queues with one more entry, for a keepalive probe. In the memory
	// of this process the length of a queue is rounded up to a power of two, so 63 needs
	// less memory than 64. Zero means 63.
	MaxInFlight int
	// MaxMessage is the size of a receive buffer in bytes, and the length of the longest
	// message that can be sent. Both sides of a connection should use the same value: a
	// message that is longer than the receive buffer of the peer ends the connection. The
	// sender then gets an error with verbs.StatusRemInvReqErr, and the receiver an error
	// with verbs.StatusLocLenErr; if the receiver has not called OnOpen yet, OnAcceptError
	// gets it. Zero means 4096.
	MaxMessage int
	// MaxInline is the size in bytes of the largest message that is sent inline: its bytes
	// are in the work request instead of in registered memory. The device may have a lower
	// limit. Zero means 128. Negative means that no message is sent inline.
	MaxInline int
	// MaxConns is the maximum number of connections of one loop. Connections that are
	// opening or closing count too. After OnClose a connection counts until the peer has
	// disconnected, or until DrainTimeout has passed. Further connections are refused
	// with cm.RejectNoResources. Zero means 8192. With the other defaults, the receive
	// buffers of 8192 connections take at most 2 GiB of memory. With provider/soft, 8192
	// connections to processes on the same host take 16,384 descriptors in this process.
	// Negative means 1,048,576, the largest number that the work-request ids of a loop
	// can distinguish.
	MaxConns int
	// SharedRecvBuffers is the number of receive buffers in the shared receive queue of
	// a loop. Zero means that each connection has a receive queue of its own. The
	// buffers of one such queue have a total size of MaxInFlight times MaxMessage bytes.
	// The system provides their memory page by page, when they are used for the first
	// time. If there are many connections with receive queues of their own, the receive
	// buffers are most of the memory of the loop.
	SharedRecvBuffers int
	// SignalEvery is the number of sends after which a send requests a completion: with
	// the value 16, every sixteenth send does. The completion also confirms all sends
	// before it. Zero means a quarter of MaxInFlight, rounded up.
	SignalEvery int
	// HugePages puts the receive and send buffers into huge pages if the system has free
	// ones.
	HugePages bool

	// RetryCount is how many times the transport retransmits a packet that is not
	// acknowledged, 1 to 7. Zero means 7. Negative means no retransmission. Both sides use
	// the value of the dialing side.
	RetryCount int
	// RNRRetryCount is how many times the peer sends a message again if this side has no
	// receive buffer for the message, 1 to 7. Zero means 7, which means without limit.
	// Negative means that the peer does not send the message again.
	RNRRetryCount int
	// MinRNRTimer applies when the peer has sent a message for which this side has no
	// receive buffer. It is how long the peer waits before it sends the message again,
	// at most 655.36ms. MinRNRTimer is rounded up to a delay that the protocol has: see
	// verbs.RNRDelayCode. Zero means 0.64ms.
	MinRNRTimer time.Duration
	// AckTimeout is how long the transport waits for an acknowledgement before it
	// retransmits a packet, at most 8796s. It is rounded up to 4.096µs times a power of
	// two: see verbs.AckTimeoutCode. Zero means the provider's choice. The soft
	// provider's choice is 1.07s: with a RetryCount of 7 a connection survives a network
	// outage of at least 5s.
	AckTimeout time.Duration
	// ResponderResources is how many READs and atomic operations of the peer this side
	// executes at a time, for each connection. Zero means 16, or the device's limit if
	// that is lower. Negative means none.
	ResponderResources int
	// InitiatorDepth is how many READs and atomic operations of this side may be in
	// flight at a time, for each connection. Further ones wait in the send queue. Zero
	// means 16, or the device's limit if that is lower. Negative means none.
	InitiatorDepth int

	// Backlog is how many requests may wait at a listener until the engine fetches them.
	// Zero means the connection manager's default.
	Backlog int
	// DecisionTimeout is the time in which the application must answer a connection
	// request. A request without an answer is rejected after this time. Zero means 10s.
	DecisionTimeout time.Duration
	// ConnectTimeout is how long a connection may take to open, on either side, at most
	// cm.MaxTimeout. Zero means 30s. The default is that long because a dial should
	// survive an outage of 5s, and the kernel's connection manager repeats a lost
	// request only after 4.6s or 6.1s, depending on its version.
	ConnectTimeout time.Duration
	// DrainTimeout is the time limit for each of two waits. After Conn.Close the
	// connection waits until the peer has confirmed all sends. This wait begins with the
	// first step of closing the connection. If many connections are closed at once, the
	// loop may take this step much later than Conn.Close was called. After OnClose the
	// connection waits until the peer has disconnected. Zero means 5s.
	DrainTimeout time.Duration
	// Keepalive is the time after which the loop sends a probe if the peer has neither
	// sent a message nor confirmed a send in that time. The probe is a WRITE of zero
	// bytes, which consumes no receive buffer of the peer. The loop may post the probe
	// up to a sixteenth of Keepalive later, so that an idle loop wakes up once for many
	// connections. If the peer does not answer the probe within another Keepalive, the
	// connection ends, and OnClose gets ErrKeepalive. OnClose also gets ErrKeepalive
	// when the transport has exhausted its retries for the probe, which usually happens
	// earlier. While sends are unconfirmed, an unanswered probe does not end the
	// connection, because the peer may merely have no receive buffers. Exhausted retries
	// of the transport do. Zero means 30s. Negative means no probes.
	//
	// Keepalive detects that the network, the peer's host or the peer's device has
	// failed while a connection is idle. If one of them fails while sends are
	// unconfirmed, the sends fail when the retries of the transport are exhausted; see
	// AckTimeout and RetryCount. When the peer's process ends, the kernel of the peer
	// disconnects once. If the message of the kernel is lost, the end of the process
	// looks like a failure of the host. The same applies to the wire path of a soft
	// device, on which no kernel disconnects.
	//
	// Keepalive does not promise to detect a process that runs but whose loop hangs. The
	// keepalive of TCP does not detect such a process either: the kernel answers for the
	// process, as a hardware device answers the probe. Conn.SetIdleTimeout and
	// Conn.SetDeadline limit how long a connection waits for such a peer. A soft device
	// answers only while the loop of its process runs, so a loop that hangs looks like a
	// failure of the host. The exception is the local path while sends are unconfirmed:
	// the connection then stays open until the process ends.
	Keepalive time.Duration

	// Balance chooses the loops of new connections. Zero means RoundRobin.
	Balance Balance
	// Place, if not nil, chooses the loop of an accepted connection. It returns a loop of
	// ConnRequest.Engine. If Place is nil, or returns nil or a loop of another engine,
	// Balance chooses the loop. Place is called before OnConnectRequest, on the loop with
	// index 0. It may call Reject; OnConnectRequest is then not called. Accept and Steer
	// return verbs.ErrState in Place, because no loop is chosen yet.
	Place func(req *ConnRequest) *Loop
}

const (
	// maxQueue is the largest number of requests in one queue. It is arbitrary: the 23
	// bits for the slot in a wrID allow queues 8 times as long.
	maxQueue = 1 << 20
	// maxCPU is the largest CPU number of a unix.CPUSet.
	maxCPU = 1<<10 - 1
	// maxKeepalive is 146 years, half of the largest time.Duration. The time of a
	// keepalive timer is the sum of the loop's time, Keepalive and a rounding of up to
	// Keepalive/16. The limit prevents an overflow of this sum.
	maxKeepalive = math.MaxInt64 / 2
)

// The largest values of AckTimeout and MinRNRTimer. The protocol transfers each of these
// times as a code of 5 bits. Code 31 is the longest ACK timeout, and code 0 is the
// longest RNR delay.
var (
	maxAckTimeout = verbs.AckTimeout(verbs.MaxTimerCode)
	maxRNRDelay   = verbs.RNRDelay(0)
)

// withDefaults returns a copy of c in which every default is filled in. It returns an
// error for the first value that is out of range.
func (c *Config) withDefaults() (*Config, error) {
	var s Config
	if c != nil {
		s = *c
	}
	if err := s.check(); err != nil {
		return nil, operr.Wrap("configure reactor", err)
	}
	s.CPUs = slices.Clone(s.CPUs)
	s.setDefaults()
	return &s, nil
}

// check returns a *verbs.ParamError for the first value that is out of range.
func (c *Config) check() error {
	if err := c.checkNumbers(); err != nil {
		return err
	}
	return c.checkTimes()
}

// checkNumbers checks the fields that are numbers.
func (c *Config) checkNumbers() error {
	for _, f := range []struct {
		name             string
		value, low, high int
	}{
		{"NumLoops", c.NumLoops, 0, 1 << 10},
		{"Idle", int(c.Idle), 0, int(IdleBusy)},
		{"EpollEvery", c.EpollEvery, 0, math.MaxInt32},
		{"CompletionBudget", c.CompletionBudget, 0, 1 << 16},
		{"MaxPosted", c.MaxPosted, 0, math.MaxInt32},
		{"MaxInFlight", c.MaxInFlight, 0, maxQueue},
		{"MaxMessage", c.MaxMessage, 0, 1 << 30},
		{"MaxInline", c.MaxInline, -1, 1 << 16},
		{"MaxConns", c.MaxConns, -1, maxConns},
		{"SharedRecvBuffers", c.SharedRecvBuffers, 0, maxQueue},
		{"SignalEvery", c.SignalEvery, 0, maxQueue},
		{"RetryCount", c.RetryCount, -1, verbs.MaxRetry},
		{"RNRRetryCount", c.RNRRetryCount, -1, verbs.MaxRetry},
		{"ResponderResources", c.ResponderResources, -1, math.MaxUint8},
		{"InitiatorDepth", c.InitiatorDepth, -1, math.MaxUint8},
		{"Backlog", c.Backlog, 0, math.MaxInt32},
		{"Balance", int(c.Balance), 0, int(LeastConnections)},
	} {
		if err := checkRange(f.name, f.value, f.low, f.high); err != nil {
			return err
		}
	}
	for _, cpu := range c.CPUs {
		if err := checkRange("CPUs", cpu, 0, maxCPU); err != nil {
			return err
		}
	}
	return nil
}

// checkTimes checks the fields that are times.
func (c *Config) checkTimes() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"SpinBudget", c.SpinBudget},
		{"SafetyTimeout", c.SafetyTimeout},
		{"SlowCallback", c.SlowCallback},
		{"DecisionTimeout", c.DecisionTimeout},
		{"DrainTimeout", c.DrainTimeout},
	} {
		if err := checkTime(f.name, f.value); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name        string
		value, high time.Duration
	}{
		{"MinRNRTimer", c.MinRNRTimer, maxRNRDelay},
		{"AckTimeout", c.AckTimeout, maxAckTimeout},
		{"ConnectTimeout", c.ConnectTimeout, cm.MaxTimeout},
		{"Keepalive", max(0, c.Keepalive), maxKeepalive},
	} {
		if err := checkTimeUpTo(f.name, f.value, f.high); err != nil {
			return err
		}
	}
	return nil
}

// setDefaults replaces zero values by the defaults, and negative values by the values
// that they stand for.
func (c *Config) setDefaults() {
	c.NumLoops = orDefault(c.NumLoops, 1)
	c.SpinBudget = orDefault(c.SpinBudget, 50*time.Microsecond)
	c.SafetyTimeout = orDefault(c.SafetyTimeout, 100*time.Millisecond)
	c.EpollEvery = orDefault(c.EpollEvery, 1024)
	c.CompletionBudget = orDefault(c.CompletionBudget, 64)
	c.MaxPosted = orDefault(c.MaxPosted, 4096)
	c.MaxInFlight = orDefault(c.MaxInFlight, 63)
	if c.MaxConns = orDefault(c.MaxConns, 8192); c.MaxConns < 0 {
		c.MaxConns = maxConns
	}
	c.MaxMessage = orDefault(c.MaxMessage, 4096)
	c.MaxInline = orNone(c.MaxInline, 128)
	c.SignalEvery = orDefault(c.SignalEvery, (c.MaxInFlight+3)/4)
	c.RetryCount = orNone(c.RetryCount, verbs.MaxRetry)
	c.RNRRetryCount = orNone(c.RNRRetryCount, verbs.RNRRetryForever)
	c.MinRNRTimer = orDefault(c.MinRNRTimer, verbs.RNRDelay(cm.DefaultMinRNRTimer))
	c.ResponderResources = orNone(c.ResponderResources, 16)
	c.InitiatorDepth = orNone(c.InitiatorDepth, 16)
	c.DecisionTimeout = orDefault(c.DecisionTimeout, 10*time.Second)
	c.ConnectTimeout = orDefault(c.ConnectTimeout, 30*time.Second)
	c.DrainTimeout = orDefault(c.DrainTimeout, 5*time.Second)
	c.Keepalive = max(0, orDefault(c.Keepalive, 30*time.Second))
}

// rnrTimerCode returns the protocol's code for MinRNRTimer. There is always a code,
// because withDefaults has checked MinRNRTimer.
func (c *Config) rnrTimerCode() uint8 {
	code, _ := verbs.RNRDelayCode(c.MinRNRTimer)
	return code
}

// orDefault returns v, or fallback if v is zero.
func orDefault[T int | time.Duration](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}

// orNone returns v if v is positive, fallback if v is zero, and 0 if v is negative.
func orNone(v, fallback int) int { return max(0, orDefault(v, fallback)) }

// checkRange returns a *verbs.ParamError if v is less than low or more than high. The
// error names the value with the string fieldName.
func checkRange(fieldName string, v, low, high int) error {
	switch {
	case v < low:
		return &verbs.ParamError{Field: fieldName, Value: int64(v), Limit: int64(low), Reason: "too small"}
	case v > high:
		return &verbs.ParamError{Field: fieldName, Value: int64(v), Limit: int64(high)}
	}
	return nil
}

// checkTime returns a *verbs.ParamError if v is negative. The error has the value in
// nanoseconds, and names it with the string fieldName.
func checkTime(fieldName string, v time.Duration) error {
	if v >= 0 {
		return nil
	}
	return &verbs.ParamError{Field: fieldName, Value: int64(v), Reason: fmt.Sprintf("%v is negative", v)}
}

// checkTimeUpTo is checkTime, but also returns an error if v is more than high. The error
// then has the limit too, in nanoseconds.
func checkTimeUpTo(fieldName string, v, high time.Duration) error {
	if v <= high {
		return checkTime(fieldName, v)
	}
	return &verbs.ParamError{
		Field: fieldName, Value: int64(v), Limit: int64(high), Reason: fmt.Sprintf("%v is longer than the limit, %v", v, high),
	}
}
