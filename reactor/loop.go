package reactor

import (
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Loop owns connections, their completion queues and their registered memory, and calls
// the Handler. It belongs to one goroutine: the one on which the engine runs it, or the
// one that calls RunOnce. Only Post, Wake, SetIdle, Stop, Dial, Conns, Stats, Index
// and Engine may be called from other goroutines.
type Loop struct {
	engine  *Engine
	handler Handler
	cfg     *Config
	index   int

	clock  clock
	timers timerheap.Heap
	ticker timerheap.Timer // timer that calls OnTick
	idle   idleState
	// turnFunc is called in every turn; nil if SetTurnFunc has set none.
	turnFunc func() (worked bool)
	mailbox  mailbox
	timerFD  *timerFD // nil unless the loop was made with NewLoop

	poller  *poller.Poller
	channel *cm.EventChannel // connection events of the loop's connections
	// Watched descriptors. The data of a poller.Event is the index of the descriptor in
	// sources.
	sources []sourceSlot
	epoll   epollSchedule

	devices        []*loopDevice
	conns          connTable
	dirty          []*Conn   // connections with requests to post
	closing        connQueue // connections whose method advance must be called
	liveConns      int       // number of connections that are not in StateClosed
	openingConns   int       // number of connections in a state before stateOpen
	currentMessage *Buffer   // buffer of the message that was passed to OnMessage; nil outside OnMessage
	// inlineBuffer describes the message that recvInline handles. It is not part of the slab,
	// and its memory belongs to the completion queue.
	inlineBuffer Buffer
	// load is liveConns plus the number of connections that Dial and Accept have posted and
	// the loop has not made yet.
	load atomic.Int64
	// waitingDials is the number of calls of Dial whose connection the loop has not made yet.
	// It is at most Config.MaxConns, so that a program that calls Dial again and again, while
	// a callback runs, does not make the mailbox grow without a limit.
	waitingDials atomic.Int64

	probeTurn uint64 // turn in which mayProbe was last called
	probes    int    // number of probes that mayProbe has counted in probeTurn

	state      loopState
	stats      Stats
	published  publishedStats
	safetyWake bool // the safety timeout ended the last sleep, and there was no event
	booted     bool // OnBoot has returned nil
	// The method boot, RunOnce or closeNow is running, so a callback may be running. A
	// loop made with NewLoop refuses RunOnce, Arm and Close meanwhile.
	running bool
	err     error // first error that neither a callback nor the result of a call has reported
}

// enter moves the loop to the state s, unless the loop is already in a later state. A
// loop that ends still runs the functions that were posted earlier. One of them may call
// drain or abortConns. Such a call must not move the loop back to an earlier state.
func (l *Loop) enter(s loopState) { l.state = max(l.state, s) }

// recordError keeps the first error that is passed to it. Engine.Wait returns that error,
// because no callback reports it.
func (l *Loop) recordError(err error) { l.err = firstError(l.err, err) }

// Index returns the index of the loop in its engine, from 0. It may be called from any
// goroutine.
func (l *Loop) Index() int { return l.index }

// Engine returns the engine to which the loop belongs. It may be called from any
// goroutine.
func (l *Loop) Engine() *Engine { return l.engine }

// Now returns the time at which the loop has last read the clock. The loop reads the
// clock every few turns. In an idle loop this time is a few microseconds old. In a loop
// with work it is older by the duration of the callbacks since that reading.
func (l *Loop) Now() time.Time { return l.clock.time() }

// Conns returns how many connections the loop has. Connections that are opening or
// closing count too, and also calls of Dial and Accept that wait for the loop. Conns may
// be called from any goroutine.
func (l *Loop) Conns() int { return int(l.load.Load()) }

// SetIdle changes what the loop does after a turn without work. It may be called from any
// goroutine, and takes effect when the present turn has ended. The error is a
// *verbs.ParamError if the policy is unknown.
func (l *Loop) SetIdle(p IdlePolicy) error {
	if err := checkRange("idle policy", int(p), 0, int(IdleBusy)); err != nil {
		return operr.Wrap("set idle policy", err)
	}
	l.idle.policy.Store(uint32(p))
	l.Wake()
	return nil
}

// Alloc maps size bytes of new memory outside the Go heap, and registers them for
// one-sided operations on the connections of this loop that use the device dev. The
// memory is unmapped by MR.Close, or when the loop ends. A peer can access the memory if
// the parameter access allows that, and if the peer knows MR.Addr and MR.RKey: see
// Remote. Alloc may be called only on the goroutine of the loop. ConnRequest.Loop says
// how to allocate memory for a request whose connection belongs to another loop. The
// error matches verbs.ErrForeign if dev is not a device of the engine's provider. Other
// errors are those of verbs.PD.Alloc, and, when the loop uses the device for the first
// time, those of opening the device.
func (l *Loop) Alloc(dev verbs.Device, size int, access verbs.Access) (verbs.MR, error) {
	d, err := l.ownDevice(dev)
	if err != nil {
		return nil, operr.Wrap("allocate memory", err)
	}
	return d.alloc(size, access)
}

// Lease returns a send buffer of Config.MaxMessage bytes for the connections of this
// loop that use the device dev. Its length is 0: see Buffer.SetLen. The buffer belongs
// to the caller until Buffer.Release or a successful SendBuffer. Lease may be called
// only on the goroutine of the loop. The error matches verbs.ErrForeign if dev is not a
// device of the engine's provider. Other errors mean that there is no memory, or that
// the device can not be opened.
func (l *Loop) Lease(dev verbs.Device) (*Buffer, error) {
	d, err := l.ownDevice(dev)
	if err != nil {
		return nil, operr.Wrap("lease buffer", err)
	}
	return d.lease()
}

// Post makes the loop call fn, after the functions that were posted before. It may be
// called from any goroutine and does not block. The error matches ErrTooManyPosted if
// Config.MaxPosted functions wait, or ErrClosed if OnShutdown is running or the loop has
// ended. If Post returns an error, fn is not called.
func (l *Loop) Post(fn func()) error { return l.post("post", fn, false) }

// Wake ends the present sleep of the loop, or its next one if it is not asleep. It may be
// called from any goroutine.
func (l *Loop) Wake() { l.poller.Wake() }

// post adds fn to the mailbox, and wakes the loop if that is needed. For the parameter
// internal see mailbox.put.
func (l *Loop) post(op string, fn func(), internal bool) error {
	wake, err := l.mailbox.put(fn, internal)
	if err != nil {
		return operr.Wrap(op, err)
	}
	if wake {
		l.poller.Wake()
	}
	return nil
}
