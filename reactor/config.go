package reactor

import (
	"math"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Config configures an engine or a loop. The zero value, and nil, mean the
// defaults. It is copied, and never modified. A value out of range is refused
// with a *verbs.ParamError when the engine is made, also if it is beyond what a
// device of the provider can do.
type Config struct {
	// Loops is the number of loops. Zero means 1. Where verbs.Caps.ProgressManual
	// is true it is at most the device's completion vectors: for the soft
	// provider soft.Config.Vectors has to cover it.
	Loops int
	// CPUs pins loops: loop i locks its goroutine to a thread, and the thread
	// to CPU CPUs[i mod len]. Empty means neither. It does not apply to a loop
	// made with NewLoop. It is for loops that spin: one that sleeps has a better
	// tail when it is not locked. GOMAXPROCS should be more than the number of
	// busy loops, or the rest of the program stops them for 10ms at a time.
	CPUs []int

	// Idle is what a loop does when there is nothing to do. Zero means
	// IdleAdaptive. Loop.SetIdle changes it later.
	Idle IdlePolicy
	// SpinBudget is how long an adaptive loop polls after its last work before
	// it sleeps. Zero means 50µs.
	SpinBudget time.Duration
	// SafetyTimeout is the longest sleep: it finds completions whose event was
	// lost, and counts them in Stats.Rescues. Zero means 100ms.
	SafetyTimeout time.Duration
	// EpollEvery is how many turns a loop that does not sleep makes between
	// two looks at its descriptors: connection events, foreign descriptors.
	// Zero means 1024. While a connection opens there are at most 16.
	EpollEvery int
	// Batch is how many completions a device may hand over in one turn. The completion
	// queues of a device on a loop share this number; a turn may exceed it by less than
	// another Batch. Zero means 64.
	Batch int
	// Mailbox is how many posted functions may wait on one loop. Zero means 4096.
	Mailbox int
	// SlowCallback makes the loop time every callback, at two readings of the
	// clock each, and count those that took longer. Zero means no timing.
	SlowCallback time.Duration

	// MaxInFlight is how many operations one connection may have outstanding,
	// and how many receive buffers it has posted; all queue sizes follow from
	// it. Zero means 63: a send queue has one place more, for a probe, and its
	// memory is that of the next power of two.
	MaxInFlight int
	// MaxMessage is the size in bytes of a receive buffer, and the largest
	// message that can be sent. Both sides of a connection should agree. Zero
	// means 4096.
	MaxMessage int
	// MaxInline is up to how many bytes a message travels inside its work
	// request instead of in registered memory; the device may have a lower
	// limit. Zero means 128, negative none.
	MaxInline int
	// MaxConns is how many connections one loop takes. Connections that are opening or
	// closing count too. A closed connection counts until the peer has disconnected, up
	// to DrainTimeout after OnClose. Further connections are refused with
	// cm.RejectNoResources. Zero means 8192: with the other defaults their receive
	// buffers take at most 2 GiB of memory, and their ends of local connections 16,384
	// descriptors. Negative means 1,048,576, the most that a loop can number.
	MaxConns int
	// SRQ makes the connections of a loop share this many receive buffers.
	// Zero means a receive queue for each connection, whose buffers come to
	// MaxInFlight times MaxMessage bytes, taken from the system as they are used
	// for the first time: with many connections it is most of their memory.
	SRQ int
	// SignalEvery asks for a completion of every so many sends; one completion
	// confirms all sends before it. Zero means a quarter of MaxInFlight, rounded up.
	SignalEvery int
	// HugePages puts the receive and send buffers into huge pages where there
	// are some.
	HugePages bool

	// RetryCount is how often the transport retries without an answer, 1 to 7.
	// Zero means 7, negative none. The dialing side's value rules both.
	RetryCount int
	// RNRRetryCount is how often the peer retries when it found no receive
	// buffer here, 1 to 7. Zero means 7, which is without end; negative none.
	RNRRetryCount int
	// MinRNRTimer is the code of the pause between RNR retries, 1 to 31: see
	// verbs.RNRDelay. Zero means code 12, 0.64ms. Negative means code 0, the longest
	// pause (655ms), which is what rdma_accept(3) sets.
	MinRNRTimer int
	// AckTimeout is the code of the transport's timeout, 1 to 31: see verbs.AckTimeout.
	// Zero means the provider's choice. The soft provider's choice is 18, 1.07s: with a
	// RetryCount of 7 a connection survives a network outage of 5s and more.
	AckTimeout int
	// ResponderResources is how many READs and atomics of the peer are served
	// at a time, per connection. Zero means 16, lowered to the device's limit;
	// negative none.
	ResponderResources int
	// InitiatorDepth is how many READs and atomics a connection has on the way
	// at a time; others wait behind them. Zero means 16, lowered to the
	// device's limit; negative none.
	InitiatorDepth int

	// Backlog is how many requests may wait at a listener to be looked at.
	// Zero means the connection manager's default.
	Backlog int
	// DecisionTimeout is how long a request may stay unanswered. Zero means 10s.
	DecisionTimeout time.Duration
	// ConnectTimeout is how long a connection may take to open, on either side. Zero
	// means 30s. It is that long so that a dial survives an outage of 5s: the kernel's
	// connection manager repeats a lost request after 4.6s or 6.1s, depending on its
	// version.
	ConnectTimeout time.Duration
	// DrainTimeout is how long a closing connection waits for the peer to
	// confirm its sends, and then for the peer's goodbye. Zero means 5s.
	DrainTimeout time.Duration
	// Keepalive is how long the peer may be silent before the loop probes it. The probe
	// is a WRITE of no bytes, which takes no receive buffer of the peer. It is posted up
	// to a sixteenth of Keepalive later, so that an idle loop wakes up once for many
	// connections. If the peer has not answered for the same time again, the connection
	// ends, and OnClose gets ErrKeepalive. OnClose also gets ErrKeepalive when the
	// transport gives up the probe, which is usually earlier. While sends are unconfirmed
	// only the transport decides, because the peer may merely have no receive buffers.
	// Zero means 30s, negative no probes.
	Keepalive time.Duration

	// Balance places new connections. Zero means RoundRobin.
	Balance Balance
	// Place, if not nil, places accepted connections instead of Balance: it
	// returns the index of the loop. Other results mean Balance's choice.
	Place func(req *ConnRequest) int
}

const (
	maxQueue = 1 << 20 // requests of one queue; a wrID has room for more
	maxCPU   = 1<<10 - 1
	// maxKeepalive is 146 years, half of the largest time.Duration. The loop adds two
	// such times to its clock, which must not overflow.
	maxKeepalive = math.MaxInt64 / 2
)

// settled returns a copy with every default filled in, or the first value that
// is out of range.
func (c *Config) withDefaults() (*Config, error) {
	var s Config
	if c != nil {
		s = *c
	}
	if err := s.check(); err != nil {
		return nil, verbs.Wrap("configure reactor", err)
	}
	s.CPUs = slices.Clone(s.CPUs)
	s.setDefaults()
	return &s, nil
}

func (c *Config) check() error {
	for _, f := range []struct {
		name             string
		value, low, high int64
	}{
		{"Loops", int64(c.Loops), 0, 1 << 10},
		{"Idle", int64(c.Idle), 0, int64(IdleBusy)},
		{"SpinBudget", int64(c.SpinBudget), 0, math.MaxInt64},
		{"SafetyTimeout", int64(c.SafetyTimeout), 0, math.MaxInt64},
		{"EpollEvery", int64(c.EpollEvery), 0, math.MaxInt32},
		{"Batch", int64(c.Batch), 0, 1 << 16},
		{"Mailbox", int64(c.Mailbox), 0, math.MaxInt32},
		{"SlowCallback", int64(c.SlowCallback), 0, math.MaxInt64},
		{"MaxInFlight", int64(c.MaxInFlight), 0, maxQueue},
		{"MaxMessage", int64(c.MaxMessage), 0, 1 << 30},
		{"MaxInline", int64(c.MaxInline), -1, 1 << 16},
		{"MaxConns", int64(c.MaxConns), -1, maxConns},
		{"SRQ", int64(c.SRQ), 0, maxQueue},
		{"SignalEvery", int64(c.SignalEvery), 0, maxQueue},
		{"RetryCount", int64(c.RetryCount), -1, verbs.MaxRetry},
		{"RNRRetryCount", int64(c.RNRRetryCount), -1, verbs.MaxRetry},
		{"MinRNRTimer", int64(c.MinRNRTimer), -1, 31},
		{"AckTimeout", int64(c.AckTimeout), 0, 31},
		{"ResponderResources", int64(c.ResponderResources), -1, math.MaxUint8},
		{"InitiatorDepth", int64(c.InitiatorDepth), -1, math.MaxUint8},
		{"Backlog", int64(c.Backlog), 0, math.MaxInt32},
		{"DecisionTimeout", int64(c.DecisionTimeout), 0, math.MaxInt64},
		{"ConnectTimeout", int64(c.ConnectTimeout), 0, math.MaxInt64},
		{"DrainTimeout", int64(c.DrainTimeout), 0, math.MaxInt64},
		{"Keepalive", int64(c.Keepalive), math.MinInt64, maxKeepalive},
		{"Balance", int64(c.Balance), 0, int64(LeastConnections)},
	} {
		if err := checkRange(f.name, f.value, f.low, f.high); err != nil {
			return err
		}
	}
	for _, cpu := range c.CPUs {
		if err := checkRange("CPUs", int64(cpu), 0, maxCPU); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) setDefaults() {
	c.Loops = orDefault(c.Loops, 1)
	c.SpinBudget = orDefault(c.SpinBudget, 50*time.Microsecond)
	c.SafetyTimeout = orDefault(c.SafetyTimeout, 100*time.Millisecond)
	c.EpollEvery = orDefault(c.EpollEvery, 1024)
	c.Batch = orDefault(c.Batch, 64)
	c.Mailbox = orDefault(c.Mailbox, 4096)
	c.MaxInFlight = orDefault(c.MaxInFlight, 63)
	if c.MaxConns = orDefault(c.MaxConns, 8192); c.MaxConns < 0 {
		c.MaxConns = maxConns
	}
	c.MaxMessage = orDefault(c.MaxMessage, 4096)
	c.MaxInline = orNone(c.MaxInline, 128)
	c.SignalEvery = orDefault(c.SignalEvery, (c.MaxInFlight+3)/4)
	c.RetryCount = orNone(c.RetryCount, verbs.MaxRetry)
	c.RNRRetryCount = orNone(c.RNRRetryCount, verbs.RNRRetryForever)
	c.MinRNRTimer = orNone(c.MinRNRTimer, cm.DefaultMinRNRTimer)
	c.ResponderResources = orNone(c.ResponderResources, 16)
	c.InitiatorDepth = orNone(c.InitiatorDepth, 16)
	c.DecisionTimeout = orDefault(c.DecisionTimeout, 10*time.Second)
	c.ConnectTimeout = orDefault(c.ConnectTimeout, 30*time.Second)
	c.DrainTimeout = orDefault(c.DrainTimeout, 5*time.Second)
	c.Keepalive = max(0, orDefault(c.Keepalive, 30*time.Second))
}

// or is value, or fallback when value is zero.
func orDefault[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

// orNone is or, with negative values meaning none.
func orNone(value, fallback int) int { return max(0, orDefault(value, fallback)) }

func checkRange(field string, value, low, high int64) error {
	switch {
	case value < low:
		return &verbs.ParamError{Field: field, Value: value, Limit: low, Reason: "too small"}
	case value > high:
		return &verbs.ParamError{Field: field, Value: value, Limit: high}
	}
	return nil
}
