package reactor

import (
	"cmp"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Config configures an engine or a loop. Nil and the zero value mean the defaults. New
// copies the Config. A value out of range or above a device's limit causes a
// *verbs.ParamError.
type Config struct {
	// NumLoops is the number of loops. Zero means 1. With verbs.Caps.ProgressManual it is
	// at most the device's number of completion vectors.
	NumLoops int
	// CPUs pins the thread of loop i to CPUs[i mod len(CPUs)]; -1 means that the loop is not
	// pinned. If CPUs is empty, no loop is pinned. A loop made with NewLoop can not be pinned.
	//
	// Pinning is for loops that spin. It makes the tail latencies of sleeping loops
	// longer. GOMAXPROCS should be the number of spinning loops plus two. See ConfineRuntime. Two
	// loops with IdleBusy can not have the same CPU.
	CPUs []int
	// Idle says what a loop does after a turn without work: see IdlePolicy. Zero means
	// IdleAdaptive. Loop.SetIdle changes the policy of a running loop, and does not check the
	// processors.
	Idle IdlePolicy
	// SpinBudget is how long a loop with IdleAdaptive polls after its last work before it
	// sleeps. Zero means 50µs.
	SpinBudget time.Duration
	// EachLoop sets what differs between the loops; nil means nothing. New calls it for each
	// loop, with the index and with a LoopConfig that has the values of CPUs, Idle and
	// SpinBudget.
	EachLoop func(index int, l *LoopConfig)

	// Logger gets warnings and errors that no callback and no method reports, and those that
	// BaseHandler does not ignore. Nil means the result of slog.Default when New is called.
	// What a peer can cause is logged at most 10 times at once, and then once in a minute. At
	// debug level, Logger gets a record of each event in the life of a connection, without a
	// limit: see "Log" in the comment of the package, which has the names of the attributes.
	Logger *slog.Logger
	// LatencyEvery makes each loop measure one turn of so many, chosen at random, and every sleep:
	// see Loop.Latency. 1 means every turn. Zero means that nothing is measured.
	//
	// A turn that is measured takes about 60 ns longer, and about 100 ns for each callback. With 1
	// the two sides of an echo of 64 bytes on the local path took 0.95 µs instead of 0.43 µs, and
	// with 64 hardly longer. A loop that measures has 17 KiB of histograms; Loop.Post, PostWait and
	// After allocate 48 bytes for the measurement of their functions. All connections have times of
	// arrival if the device knows these, which changes how the device of package soft receives
	// packets: see DialOptions.MessageTime.
	LatencyEvery int
	// OnBoot is called once on each loop, before its first turn. If it returns an error, the
	// engine stops, and Start or NewLoop returns the error.
	OnBoot func(l *Loop) error
	// OnShutdown is the last function that is called on a loop on which OnBoot has returned
	// nil. All connections are closed then. The loop's buffers and memory are unmapped when
	// OnShutdown returns.
	OnShutdown func(l *Loop)

	// MaxMessage is the size in bytes of a receive buffer and of the longest message that
	// is not a long message: see MaxLongMessage.
	// Zero means 4096. Both sides should use the same value. A message longer than the
	// peer's buffer ends the connection. The sender gets verbs.StatusRemInvReqErr, and
	// the receiver verbs.StatusLocLenErr.
	MaxMessage int
	// MaxLongMessage is the length in bytes of the longest message that this side accepts,
	// more than MaxMessage and at most 1 GiB. Zero means that there are no long messages:
	// every message has at most MaxMessage bytes. Otherwise MaxMessage must be at least
	// 256. See "Long messages" in the comment of the package.
	MaxLongMessage int
	// MaxInFlight is how many operations one connection may have outstanding. Zero means
	// 63. The loop requests a send queue with one more entry, for a probe. If
	// MaxLongMessage is set, it requests 16 further entries for long messages.
	//
	// A send is outstanding until a completion confirms it, so an answer may be outstanding
	// longer than its request: see "Sending" in the comment of the package.
	MaxInFlight int
	// MaxConns is the maximum number of connections of one loop. Zero means 8192.
	// Negative means 1,048,576, the largest possible number. Connections that are
	// opening, closing or disconnecting count too. Further connections are refused with
	// cm.RejectNoResources.
	//
	// With provider/soft, a connection to a peer on this host needs one file descriptor on
	// each side, and each pair of a loop and a loop of a peer process one more: 200 client
	// processes with one connection each need 400 descriptors in a server with one loop. A
	// connection to another host needs one on the side that dials, and none on the other.
	// An engine needs about 16 in addition, and 9 for each further loop. With many packets,
	// a loop opens up to 575 more sockets.
	MaxConns int
	// PeerTimeout is how long a peer may be silent before its connections end, at least 1ms.
	// They end until 1.4 times this time is over; connections that this side has accepted,
	// until 2.5 times, because the peer chooses RetryCount. AckTimeout, RetryCount and
	// Keepalive follow from PeerTimeout, each unless it is set: AckTimeout is a fourth to a
	// seventh of it, and Keepalive half of it, at most 30s. So an idle connection to a dead
	// peer ends within Keepalive and PeerTimeout.
	//
	// Zero means what the defaults of those three give with provider/soft: a connection
	// survives an outage of 5s, a peer that is silent ends it after 8.6s, and if it is idle
	// after 39s. On the local path of provider/soft the end of a process is noticed at once.
	//
	// A peer is silent, too, while its loop is in a callback, its process is stopped, or its
	// host gives it no processor, except with a device that answers by itself. Time in which
	// this side's loop did not run does not count. The peer may be stopped for almost this
	// time; of an outage of the network, one AckTimeout less is survived.
	//
	// A short PeerTimeout finds a dead peer soon, and is needed for that on the wire path and
	// for stopped processes only: a fail-over within 100ms needs 50ms. It ends connections to
	// healthy peers if these get no processor for so long: on a host whose two processors had
	// four times the work that they can do, 50ms ended one in six seconds. And it costs
	// probes: for each idle connection in each Keepalive, two packets, about 10 µs of this
	// side and 5 µs of the peer. 10,000 idle connections use 11 % of a processor with 1s, and
	// would need four with 25ms. A long one delays the retransmission of lost packets,
	// because AckTimeout is longer.
	PeerTimeout time.Duration

	// What most programs leave as it is.
	Transport Transport
	Memory    Memory
	Limits    Limits

	loops []LoopConfig // configuration of each loop, in the copy that New makes
}

// A LoopConfig is the configuration of one loop: see Config.EachLoop.
type LoopConfig struct {
	// Name is returned by Loop.Name, and is the name of the thread of a pinned loop, of which
	// the system keeps 15 bytes. Empty means "loop" and the index.
	Name string
	// CPU is the processor to which the loop is pinned: see Config.CPUs; -1 means none.
	CPU int
	// Idle and SpinBudget replace the fields of Config with the same names.
	Idle       IdlePolicy
	SpinBudget time.Duration
}

// Transport configures the queue pairs and the requests of connections. Zero values mean the
// defaults.
type Transport struct {
	// AckTimeout is how long the transport waits for an acknowledgement before it
	// retransmits, at most 8796s. Zero means what PeerTimeout gives, and without that the
	// provider's choice, which is 1.07s in the soft provider, or what the dialing side
	// proposes, up to 4.3s. The time is rounded up: see verbs.AckTimeoutCode. A peer that
	// answers nothing fails the connection after AckTimeout for the first attempt and for
	// each retry.
	AckTimeout time.Duration
	// RetryCount is how often the transport retransmits an unacknowledged packet, 1 to 7.
	// Zero means 7, or what PeerTimeout gives. Negative means never. The dialing side's value
	// applies to both sides.
	RetryCount int
	// RNRRetryCount is how often the peer repeats a message that found no receive
	// buffer, 1 to 7. Zero and 7 mean that there is no limit. Negative means never.
	RNRRetryCount int
	// MinRNRTimer is how long the peer waits before it repeats a message that found no
	// receive buffer, at most 655.36ms. Zero means 0.64ms. The time is rounded up: see
	// verbs.RNRDelayCode.
	MinRNRTimer time.Duration
	// Keepalive is how long a peer may send and confirm nothing before the loop sends a
	// probe. Zero means 30s, or half of PeerTimeout if that is less. Negative means no
	// probes. The probe may be late by up to a sixteenth of this time. It is a WRITE of zero
	// bytes, for which the peer needs no receive buffer.
	//
	// If a probe is not answered within PeerTimeout, or without that within another Keepalive,
	// the connection ends with ErrKeepalive. It ends earlier if the retries of the transport are
	// used up before, with ErrKeepalive, too: see AckTimeout. There is one exception. If earlier
	// sends are unconfirmed, perhaps the peer only lacks receive buffers. Then a missing answer
	// does not end the connection. Only the retries of the transport can end it: see AckTimeout.
	//
	// A peer whose loop hangs may still answer: see Conn.SetIdleTimeout.
	Keepalive time.Duration
	// ResponderResources is the number of the peer's READs and atomics that each
	// connection executes at a time. Zero means 16 or the device's lower limit. Negative
	// means none.
	ResponderResources int
	// InitiatorDepth is how many READs and atomics each connection may have in flight.
	// Zero means 16 or the device's lower limit. Negative means none. Further READs and
	// atomics wait in the send queue.
	InitiatorDepth int
	// SignalEvery is the number of sends per completion. The completion confirms all
	// sends before it. Zero means a quarter of MaxInFlight, rounded up.
	SignalEvery int
	// MaxPieces is the largest number of pieces of one operation: see Conn.Write. Zero
	// means 4, or the device's lower limit verbs.DeviceAttr.MaxSGE. Each queue pair needs
	// 16 bytes for each piece of each operation that may be outstanding.
	MaxPieces int
	// MaxWindows is how many parts of regions one connection may show to its peer at a
	// time: see Conn.Show. Zero means 16. Negative means none. A connection makes a memory
	// window of the device when it needs one more, and keeps it until the connection ends.
	MaxWindows int
	// MaxInline is the size in bytes of the largest message that is sent inline. Zero
	// means 128. Negative means none. An inline message is copied into the work request,
	// and needs no registered memory. The device may have a lower limit.
	MaxInline int
}

// Memory says how much registered memory the connections have for messages. Zero values mean
// the defaults.
type Memory struct {
	// SharedRecvBuffers is the number of receive buffers that all connections of a loop
	// on one device share. Negative means that nothing is shared: each connection has a
	// receive queue of its own, with MaxInFlight buffers.
	//
	// Zero means a default. It is 256 for up to 64 connections. With more connections it
	// is 4 for each of them, up to 1024. The default is at least MaxInFlight, and at
	// most the device's limit.
	//
	// Each connection has a receive queue of its own if the device has no shared receive
	// queues (verbs.Caps.SRQ), or if SharedRecvBuffers is zero and the device's limit is
	// less than MaxInFlight.
	//
	// A buffer is in use from the arrival of a message until OnMessage has returned. If
	// the application keeps the buffer, another buffer takes its place at once. So an
	// application that keeps many buffers needs much memory, but takes no buffers from
	// the other connections. If there is no memory for another buffer, the queue lacks
	// one until Buffer.Release. Stats.Unreplaced counts such messages.
	//
	// The peers may send more messages than there are buffers before the loop polls. A
	// message that finds no buffer is not lost: the peer gets an RNR NAK and repeats the
	// message after MinRNRTimer, up to RNRRetryCount times. One peer that sends without
	// pause can cause this for all connections of the loop: see MinRecvBuffers.
	//
	// With provider/soft and fewer than four buffers for each connection, the messages of
	// which the packets of one host have arrived only in part hold at most an eighth of the
	// buffers. A further message of several packets gets an RNR NAK.
	//
	// The system provides the memory of a buffer when the buffer is first used. When no
	// connection is left, the loop returns the memory.
	SharedRecvBuffers int
	// MinRecvBuffers is the smallest number of shared receive buffers for each
	// connection. The loop has 64 more, because buffers are posted again in batches.
	// Zero means that only SharedRecvBuffers counts. If a connection has a receive queue
	// of its own, the queue has at least twice MinRecvBuffers buffers.
	//
	// The loop adds the buffers for a new connection before it makes the queue pair. If
	// the device can not have that many buffers, the connection is refused with
	// cm.RejectNoResources. The device's limits are verbs.DeviceAttr.MaxSRQWR and
	// MaxCQE.
	//
	// MinRecvBuffers gives a guarantee. While no peer has more than MinRecvBuffers
	// messages outstanding, each message finds a buffer, and no peer gets an RNR NAK. A
	// message is outstanding from the time it is sent until the handler has answered it,
	// in its OnMessage or later.
	//
	// The guarantee ends when one peer has more messages outstanding, because the
	// buffers belong to no connection in particular. It also ends while the application
	// keeps the buffer of a message that Stats.Unreplaced has counted. A connection that
	// has failed may occupy up to MinRecvBuffers buffers until the loop has polled their
	// completions.
	//
	// When connections close, the loop needs fewer buffers. It releases each surplus
	// buffer when a message has arrived in it. When no connection is left, it releases
	// all.
	MinRecvBuffers int
	// LongConnBytes is how much memory for long messages of the peer one connection may
	// use at a time, in bytes. A buffer counts from its first READ until it is released,
	// with its whole size, which is a power of two. Zero means MaxLongMessage, rounded up
	// to a power of two. The minimum is 256 KiB.
	//
	// A message whose buffer would be larger needs a handler that calls Accept or Parts in
	// OnLongMessage. Otherwise it ends the connection.
	LongConnBytes int
	// LongLoopBytes is how much memory for long messages of the peers all connections of
	// a loop together may use at a time, in bytes. Further long messages wait until
	// buffers are released. Zero means four times LongConnBytes, at most the largest int.
	// The minimum is LongConnBytes.
	//
	// The peers share this memory: a peer is a process of this host, all processes of
	// another user, or another host. Waiting peers have turns, and one leaves LongConnBytes
	// to others, if LongLoopBytes is at least twice that. So a peer that stops answering
	// delays the others at most until its READs fail: see AckTimeout.
	LongLoopBytes int
	// HugePages puts the receive and send buffers into huge pages if the system has free
	// ones.
	HugePages bool
}

// Limits of turns, of queues and of waits. Zero values mean the defaults.
type Limits struct {
	// CompletionBudget is how many completions of one device a loop handles in one turn.
	// Zero means 64. If a device has several completion queues, a turn may handle up to
	// CompletionBudget-1 more.
	CompletionBudget int
	// EpollEvery is the number of turns between two checks of epoll, in a loop that does
	// not sleep. Zero means 1024. Epoll reports connection events, device events and
	// registered descriptors. While a connection opens, and for 1 ms after a connection
	// event, the loop checks at least every 4 turns.
	EpollEvery int
	// SafetyTimeout is the longest sleep of a loop. Zero means 100ms. If the device
	// loses an event, the loop wakes after this time. Stats.Rescues counts lost events.
	SafetyTimeout time.Duration
	// SlowCallback is the duration above which a callback is slow. Stats.SlowCallbacks counts it,
	// and Config.Logger gets a warning with its name, such as OnMessage, and its duration, the
	// loop, and the address of the peer if it belongs to a connection. Zero means no measurement.
	// The loop reads the clock before and after each measured call. These calls are measured:
	//
	//   - the methods of Handler.
	//   - functions that were passed to Post, PostWait, After or Watch. Those of Loop.Post,
	//     PostWait and After then allocate 48 bytes.
	//   - the function of SetTurnFunc, if it had work.
	SlowCallback time.Duration
	// MaxPosted is how many functions passed to Post and PostWait, of the loop and of its
	// connections, may wait on one loop. Zero means 4096.
	MaxPosted int
	// Backlog is how many requests may wait at a listener until the engine fetches them.
	// Zero means the connection manager's default.
	Backlog int
	// DecisionTimeout is how long a connection request waits for the application's answer
	// before it is rejected. Zero means 10s.
	DecisionTimeout time.Duration
	// ConnectTimeout is how long a connection may take to open, on either side, at most
	// cm.MaxTimeout. Zero means 30s. In 30s the kernel repeats a lost request several
	// times, so a dial survives a network outage of 5s.
	ConnectTimeout time.Duration
	// DrainTimeout limits each of two waits of a closing connection. Zero means 5s.
	// Before OnClose, the connection waits until the peer has confirmed all sends. After
	// OnClose, the connection waits until the peer has disconnected, unless the peer has
	// answered nothing for so long that the connection ended for that.
	DrainTimeout time.Duration
	// StopTimeout is how long Handler.OnStop may delay the close of a connection when the
	// engine stops. Zero means DrainTimeout.
	StopTimeout time.Duration
}

// defaultMaxMessage is Config.MaxMessage if that is zero. Arbitrary.
const defaultMaxMessage = 4096

const (
	// maxQueue is the largest number of requests in one queue. Arbitrary.
	maxQueue = 1 << 20
	// maxCPU is the largest CPU number of a unix.CPUSet.
	maxCPU = 1<<10 - 1
	// maxKeepalive is 146 years, half of the largest time.Duration. It prevents an
	// overflow when a keepalive time is added to the loop's time.
	maxKeepalive = math.MaxInt64 / 2
	// minPeerTimeout is the smallest Config.PeerTimeout, which the scheduler of an idle
	// system can keep.
	minPeerTimeout = time.Millisecond
)

// Largest values of Config.Transport.AckTimeout, PeerTimeout and MinRNRTimer. The protocol encodes the
// largest ACK timeout as 31, and the largest RNR delay as 0. Without retries, PeerTimeout is
// one ACK timeout.
var (
	maxAckTimeout  = verbs.AckTimeout(verbs.MaxTimerCode)
	maxPeerTimeout = maxAckTimeout
	maxRNRDelay    = verbs.RNRDelay(0)
)

// withDefaults returns a copy of c with the defaults filled in, or an error for the
// first value out of range.
func (c *Config) withDefaults() (*Config, error) {
	var s Config
	if c != nil {
		s = *c
	}
	err := s.check()
	if err == nil {
		s.loops, err = s.loopConfigs()
	}
	if err != nil {
		return nil, operr.Wrap("configure reactor", err)
	}
	s.setDefaults()
	return &s, nil
}

// check returns a *verbs.ParamError for the first value that is out of range.
func (c *Config) check() error {
	if err := c.checkNumbers(); err != nil {
		return err
	}
	if err := c.checkLong(); err != nil {
		return err
	}
	for _, cpu := range c.CPUs {
		if err := operr.CheckRange("CPUs", cpu, -1, maxCPU); err != nil {
			return err
		}
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
		{"EpollEvery", c.Limits.EpollEvery, 0, math.MaxInt32},
		{"CompletionBudget", c.Limits.CompletionBudget, 0, 1 << 16},
		{"MaxPosted", c.Limits.MaxPosted, 0, math.MaxInt32},
		{"LatencyEvery", c.LatencyEvery, 0, math.MaxInt32},
		{"MaxInFlight", c.MaxInFlight, 0, maxQueue},
		{"MaxMessage", c.MaxMessage, 0, 1 << 30},
		{"MaxLongMessage", c.MaxLongMessage, 0, maxLease},
		{"LongConnBytes", c.Memory.LongConnBytes, 0, math.MaxInt},
		{"LongLoopBytes", c.Memory.LongLoopBytes, 0, math.MaxInt},
		{"MaxInline", c.Transport.MaxInline, -1, 1 << 16},
		{"MaxConns", c.MaxConns, -1, maxConns},
		{"SharedRecvBuffers", c.Memory.SharedRecvBuffers, -1, maxQueue},
		{"MinRecvBuffers", c.Memory.MinRecvBuffers, 0, maxQueue},
		{"SignalEvery", c.Transport.SignalEvery, 0, maxQueue},
		{"MaxPieces", c.Transport.MaxPieces, 0, math.MaxUint8},
		{"MaxWindows", c.Transport.MaxWindows, -1, maxQueue},
		{"RetryCount", c.Transport.RetryCount, -1, verbs.MaxRetry},
		{"RNRRetryCount", c.Transport.RNRRetryCount, -1, verbs.MaxRetry},
		{"ResponderResources", c.Transport.ResponderResources, -1, math.MaxUint8},
		{"InitiatorDepth", c.Transport.InitiatorDepth, -1, math.MaxUint8},
		{"Backlog", c.Limits.Backlog, 0, math.MaxInt32},
	} {
		if err := operr.CheckRange(f.name, f.value, f.low, f.high); err != nil {
			return err
		}
	}
	return nil
}

// loopConfigs returns the configuration of each loop.
func (c *Config) loopConfigs() ([]LoopConfig, error) {
	loops := make([]LoopConfig, max(1, c.NumLoops))
	busy := make(map[int]bool) // processors of loops that are always busy
	for i := range loops {
		l := &loops[i]
		*l = LoopConfig{Name: loopName(i), CPU: -1, Idle: c.Idle, SpinBudget: orDefault(c.SpinBudget, defaultSpinBudget)}
		if len(c.CPUs) > 0 {
			l.CPU = c.CPUs[i%len(c.CPUs)]
		}
		if c.EachLoop != nil {
			c.EachLoop(i, l)
			l.Name = cmp.Or(l.Name, loopName(i))
			l.SpinBudget = orDefault(l.SpinBudget, defaultSpinBudget)
		}
		if err := l.check(); err != nil {
			return nil, err
		}
		if l.Idle == IdleBusy && l.CPU >= 0 {
			if busy[l.CPU] {
				return nil, &verbs.ParamError{Field: "CPU", Value: int64(l.CPU), Reason: "two loops that are always busy can not share a processor"}
			}
			busy[l.CPU] = true
		}
	}
	return loops, nil
}

func loopName(i int) string { return "loop " + strconv.Itoa(i) }

// defaultSpinBudget is the default of Config.SpinBudget.
const defaultSpinBudget = 50 * time.Microsecond

// check returns a *verbs.ParamError for the first value that is out of range.
func (l *LoopConfig) check() error {
	if err := operr.CheckRange("CPU", l.CPU, -1, maxCPU); err != nil {
		return err
	}
	if err := operr.CheckRange("SpinBudget", l.SpinBudget, 0, math.MaxInt64); err != nil {
		return err
	}
	return operr.CheckRange("Idle", int(l.Idle), 0, int(IdleBusy))
}

// checkTimes checks the fields that are times.
func (c *Config) checkTimes() error {
	for _, f := range []struct {
		name        string
		value, high time.Duration
	}{
		{"SafetyTimeout", c.Limits.SafetyTimeout, math.MaxInt64},
		{"SlowCallback", c.Limits.SlowCallback, math.MaxInt64},
		{"DecisionTimeout", c.Limits.DecisionTimeout, math.MaxInt64},
		{"DrainTimeout", c.Limits.DrainTimeout, math.MaxInt64},
		{"StopTimeout", c.Limits.StopTimeout, math.MaxInt64},
		{"MinRNRTimer", c.Transport.MinRNRTimer, maxRNRDelay},
		{"AckTimeout", c.Transport.AckTimeout, maxAckTimeout},
		{"ConnectTimeout", c.Limits.ConnectTimeout, cm.MaxTimeout},
		{"Keepalive", max(0, c.Transport.Keepalive), maxKeepalive},
	} {
		if err := operr.CheckRange(f.name, f.value, 0, f.high); err != nil {
			return err
		}
	}
	if c.PeerTimeout == 0 {
		return nil
	}
	return operr.CheckRange("PeerTimeout", c.PeerTimeout, minPeerTimeout, maxPeerTimeout)
}

// setDefaults replaces zero values by the defaults, and negative values by the values
// that they stand for.
func (c *Config) setDefaults() {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Limits.SafetyTimeout = orDefault(c.Limits.SafetyTimeout, 100*time.Millisecond)
	c.Limits.EpollEvery = orDefault(c.Limits.EpollEvery, 1024)
	c.Limits.CompletionBudget = orDefault(c.Limits.CompletionBudget, 64)
	c.Limits.MaxPosted = orDefault(c.Limits.MaxPosted, 4096)
	c.MaxInFlight = orDefault(c.MaxInFlight, 63)
	if c.MaxConns = orDefault(c.MaxConns, 8192); c.MaxConns < 0 {
		c.MaxConns = maxConns
	}
	c.MaxMessage = orDefault(c.MaxMessage, defaultMaxMessage)
	c.setLongDefaults()
	c.Transport.MaxInline = orNone(c.Transport.MaxInline, 128)
	c.Transport.MaxWindows = orNone(c.Transport.MaxWindows, 16)
	c.Transport.SignalEvery = orDefault(c.Transport.SignalEvery, (c.MaxInFlight+3)/4)
	c.Transport.RetryCount = orNone(c.Transport.RetryCount, c.defaultRetries())
	c.Transport.RNRRetryCount = orNone(c.Transport.RNRRetryCount, verbs.RNRRetryForever)
	c.Transport.MinRNRTimer = orDefault(c.Transport.MinRNRTimer, verbs.RNRDelay(cm.DefaultMinRNRTimer))
	c.Transport.ResponderResources = orNone(c.Transport.ResponderResources, 16)
	c.Transport.InitiatorDepth = orNone(c.Transport.InitiatorDepth, 16)
	c.Limits.DecisionTimeout = orDefault(c.Limits.DecisionTimeout, 10*time.Second)
	c.Limits.ConnectTimeout = orDefault(c.Limits.ConnectTimeout, 30*time.Second)
	c.Limits.DrainTimeout = orDefault(c.Limits.DrainTimeout, 5*time.Second)
	c.Limits.StopTimeout = orDefault(c.Limits.StopTimeout, c.Limits.DrainTimeout)
	keepalive := 30 * time.Second
	if c.PeerTimeout > 0 {
		keepalive = min(keepalive, c.PeerTimeout/2)
	}
	c.Transport.Keepalive = max(0, orDefault(c.Transport.Keepalive, keepalive))
}

// maxAttempts is the largest number of attempts that defaultRetries chooses. Soft-RoCE of
// Linux repeats a request without end if the retry count is 7.
const maxAttempts = verbs.MaxRetry

// defaultRetries returns RetryCount if that is zero: with PeerTimeout, the smallest number
// with which all attempts together take PeerTimeout.
func (c *Config) defaultRetries() int {
	if c.PeerTimeout == 0 {
		return verbs.MaxRetry
	}
	attempt := verbs.AckTimeout(c.ackTimeoutCode(0, maxAttempts-1))
	return min(int((c.PeerTimeout+attempt-1)/attempt)-1, verbs.MaxRetry)
}

// ackTimeoutCode returns the code of the ACK timeout of a connection, or 0 for the
// provider's choice. The parameters are the ACK timeout among the connection's options,
// and its retry count.
func (c *Config) ackTimeoutCode(option time.Duration, retries uint8) uint8 {
	timeout := orDefault(option, c.Transport.AckTimeout)
	if timeout == 0 {
		attempts := time.Duration(retries) + 1
		timeout = (c.PeerTimeout + attempts - 1) / attempts
	}
	if timeout == 0 {
		return 0
	}
	code, _ := verbs.AckTimeoutCode(timeout) // The times have been checked, so there is a code.
	return code
}

// answerTime is how long the peer may take to answer a probe, or 0 if there are no probes.
func (c *Config) answerTime() time.Duration {
	if c.Transport.Keepalive == 0 {
		return 0
	}
	return orDefault(c.PeerTimeout, c.Transport.Keepalive)
}

// rnrTimerCode returns the protocol's code for MinRNRTimer. There is always a code,
// because withDefaults has checked MinRNRTimer.
func (c *Config) rnrTimerCode() uint8 {
	code, _ := verbs.RNRDelayCode(c.Transport.MinRNRTimer)
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
