package reactor

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/reactor/internal/closemsg"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Loop owns connections, their completion queues and buffers, and calls the
// Handler. A Loop belongs to one goroutine. An engine started with Start has a goroutine
// for each loop. A loop made with NewLoop belongs to the goroutine that calls RunOnce or Poll.
//
// Other goroutines may only call Post, PostWait, SetIdle, Conns, Stats, Latency, Index, Name and
// Engine.
type Loop struct {
	engine  *Engine
	handler Handler
	cfg     *Config
	index   int
	name    string // LoopConfig.Name
	cpu     int    // LoopConfig.CPU

	clock  clock
	timers timerheap.Heap
	idle   idleState
	// turnFunc is called in every turn; nil if SetTurnFunc has set none.
	turnFunc func() (worked bool)
	mailbox  mailbox
	owner    owner
	timerFD  *timerFD // nil unless the loop was made with NewLoop

	poller *poller.Poller
	// sleeper is the device in whose completion channel the loop sleeps: see
	// cq.Group.Sleep. One system call then waits for completions and for the poller. If
	// sleeper is nil, the loop sleeps in the poller. A loop made with NewLoop has no
	// sleeper.
	sleeper *loopDevice
	channel *cm.EventChannel // channel for the events of the loop's connections
	// sources has the watched descriptors. The data of a poller.Event is an index in this
	// slice.
	sources []sourceSlot
	epoll   epollSchedule

	devices        []*loopDevice
	conns          connTable
	dirty          []*Conn   // connections with requests to post
	closing        connQueue // connections whose step must be called
	longUsed       int       // sum of longMemory.used of all connections, at most Config.Memory.LongLoopBytes
	longRow        longRow   // connections that wait for memory for long messages
	closingUses    int       // number of closed regionUses whose operations are still under way
	liveConns      int       // number of connections that are not in StateClosed
	openingConns   int       // number of connections in a state before stateOpen
	calling        *Conn     // connection whose callback runs, or nil
	currentMessage *Buffer   // buffer of the message that was passed to OnMessage; nil outside OnMessage
	// inlineBuffer describes the message that recvInline handles. It is in no slot,
	// and its memory belongs to the completion queue.
	inlineBuffer Buffer
	// qpAttr has the attributes for a call of Modify. A local variable would be
	// allocated on the heap.
	qpAttr verbs.QPAttr
	// disconnectData has the private data of a disconnect request, for the same reason.
	disconnectData [closemsg.MaxSize]byte
	// load is liveConns plus the calls of Dial and Accept that the loop has not handled
	// yet.
	load atomic.Int64
	// waitingDials is the number of calls of Dial that wait in the mailbox, at most
	// Config.MaxConns. Config.Limits.MaxPosted does not limit them.
	waitingDials atomic.Int64

	probeTurn uint64 // turn in which mayProbe was last called
	probes    int    // number of probes in the turn probeTurn

	state       loopState
	silentTimer timerheap.Timer // timer that calls dropSilent
	stats       Stats
	published   publishedStats
	safetyWake  bool // true if the last sleep has ended by Config.Limits.SafetyTimeout
	booted      bool // true after OnBoot has returned nil
	interrupted bool // true after a panic, until finishBatches
	// observed is true if callbacks are measured or recorded now, and observesAll if they always
	// are; see callbackStart.
	observed, observesAll bool
	callback              callback         // the present one, if it is measured
	latency               *latencyRecorder // nil if Config.LatencyEvery is zero
	err                   error            // first error that no callback or method has reported
}

// enter moves the loop to the state s, but never back to an earlier state.
func (l *Loop) enter(s loopState) { l.state = max(l.state, s) }

// recordError logs an error, and keeps the first one for Engine.Wait. No callback reports such
// errors.
func (l *Loop) recordError(err error) {
	if err != nil {
		l.engine.log.Error("reactor: an operation of the library has failed", "error", err)
		l.err = firstError(l.err, err)
	}
}

// Index returns the index of the loop in its engine, from 0. It may be called from any
// goroutine.
func (l *Loop) Index() int { return l.index }

// Name returns LoopConfig.Name. It may be called from any goroutine.
func (l *Loop) Name() string { return l.name }

// Engine returns the engine to which the loop belongs. It may be called from any
// goroutine.
func (l *Loop) Engine() *Engine { return l.engine }

// Now returns the time at which the loop last read the clock. An idle loop reads the
// clock every few microseconds. A loop with work may call many callbacks between two
// readings.
func (l *Loop) Now() time.Time {
	l.owner.check()
	return l.clock.time()
}

// Conns returns the number of connections, including those that are opening or closing.
// Calls of Dial and Accept that the loop has not handled yet also count. Any goroutine
// may call Conns.
func (l *Loop) Conns() int { return int(l.load.Load()) }

// SetIdle changes what the loop does after a turn without work, from the next turn on.
// Any goroutine may call it. An unknown policy is a *verbs.ParamError.
func (l *Loop) SetIdle(p IdlePolicy) error {
	if err := operr.CheckRange("idle policy", int(p), 0, int(IdleBusy)); err != nil {
		return operr.Wrap("set idle policy", err)
	}
	l.idle.policy.Store(uint32(p))
	l.wake()
	return nil
}

// Post makes the loop call fn, once. Functions are called in the order of posting. Any
// goroutine may call Post, which does not block.
//
// After an error fn is not called. ErrTooManyPosted means that Config.Limits.MaxPosted
// functions wait. ErrClosed means that OnShutdown is running or the loop has ended.
func (l *Loop) Post(fn func()) error { return l.post("post", l.measured("Post", fn), false) }

// PostWait is Post for goroutines that may block: while Config.Limits.MaxPosted functions wait,
// it waits too. If ctx is done before there is room for fn, the error is context.Cause(ctx);
// after the end of the loop it is ErrClosed, as for Post. The functions of callers that wait come
// in the order of their calls, and before those that are posted later.
//
// A callback can not wait for its own loop: there PostWait returns an error that matches
// verbs.ErrState. Nor may a goroutine that runs a loop of NewLoop wait for this loop, and two
// loops must not wait for each other.
func (l *Loop) PostWait(ctx context.Context, fn func()) error {
	return l.postWait(ctx, l.measured("Post", fn))
}

// postWait is PostWait for a function that measures itself if that is needed.
func (l *Loop) postWait(ctx context.Context, fn func()) error {
	if l.owner.isCaller() {
		return operr.Wrap("post", errWaitsForItself)
	}
	wake, err := l.mailbox.putWait(ctx, fn)
	return l.posted("post", wake, err)
}

// wake ends the present sleep of the loop. If the loop is not asleep, wake ends the next
// sleep. Any goroutine may call wake.
func (l *Loop) wake() {
	if sim := l.engine.sim; sim != nil {
		sim.Call(l.poller.Wake)
		return
	}
	l.poller.Wake()
}

// post adds fn to the mailbox, and wakes the loop if that is needed. For the parameter
// internal see mailbox.put.
func (l *Loop) post(op string, fn func(), internal bool) error {
	wake, err := l.mailbox.put(fn, internal)
	return l.posted(op, wake, err)
}

// posted wakes the loop if that is needed, after put or putWait.
func (l *Loop) posted(op string, wake bool, err error) error {
	if err != nil {
		return operr.Wrap(op, err)
	}
	if wake {
		l.wake()
	}
	return nil
}

// A loopState is the state of a loop.
type loopState uint8

// The states, in order. A loop never returns to an earlier state, and may skip
// loopDroppingSilent and loopAborting.
const (
	// loopRunning: the loop accepts new connections. Engine.Stop posts Loop.drain(),
	// which leads to loopDraining.
	loopRunning loopState = iota
	// loopDraining: new connections fail with ErrShutdown, and existing ones close.
	// dropSilent leads to loopDroppingSilent, and abortConns to loopAborting. After the last
	// connection and request, finishTurn leads to loopEnded.
	loopDraining
	// loopDroppingSilent: as loopDraining, but the connections of silent peers end without
	// waiting for them. abortConns leads to loopAborting. After the last connection and
	// request, finishTurn leads to loopEnded.
	loopDroppingSilent
	// loopAborting: the connections end without waiting for their peers. After the last
	// connection and request, finishTurn leads to loopEnded.
	loopAborting
	// loopEnded: OnShutdown is running or has returned. The loop runs no more turns, and
	// Post fails.
	loopEnded
)

// open initializes the loop and opens its poller and its event channel.
func (l *Loop) open() (err error) {
	l.clock.origin = time.Now()
	l.owner.anyone = l.engine.sim != nil
	l.observesAll = l.measuresAll() || l.engine.sim != nil
	l.observed = l.observesAll
	l.latency = newLatencyRecorder(l.cfg.LatencyEvery, l.index)
	l.mailbox.limit = l.cfg.Limits.MaxPosted
	l.idle.alone = runtime.GOMAXPROCS(0) == 1
	l.epoll.checkSoon()
	if l.poller, err = poller.New(maxEvents); err != nil {
		return err
	}
	if l.channel, err = cm.OpenChannel(l.engine.provider); err != nil {
		return err
	}
	_, err = l.watch(l.channel.FD(), poller.Readable, (*eventSource)(l))
	return err
}

// maxEvents is the largest number of ready descriptors that one call of epoll_wait
// returns. The number is arbitrary.
const maxEvents = 64

// boot calls Config.OnBoot.
func (l *Loop) boot() error {
	l.owner.begin()
	defer func() { l.owner.running = false }()
	l.clock.wake()
	if boot := l.cfg.OnBoot; boot != nil {
		if err := boot(l); err != nil {
			return err
		}
	}
	l.booted = true
	return nil
}

// main is the function of a loop's goroutine. It calls pin() and boot(), sends their
// first error or nil to the channel booted, and then runs the loop.
func (l *Loop) main(booted chan<- error) {
	l.owner.take()
	defer l.owner.leave()
	err := l.pin()
	if err == nil {
		err = l.boot()
	}
	booted <- err
	l.run()
}

// pin locks the goroutine to a thread, and the thread to LoopConfig.CPU. Linux then takes new
// memory of the thread from the NUMA node of this CPU.
func (l *Loop) pin() error {
	if l.cpu < 0 || l.engine.sim != nil {
		return nil
	}
	runtime.LockOSThread()
	l.idle.locked = true
	return operr.Wrap("pin loop", pinThread(l.cpu, l.name))
}
