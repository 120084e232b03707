// Package turns lets several goroutines use one loop of package reactor, one at a time.
//
// A goroutine owns the loop from Lock to Unlock. The owner may run turns of the loop and
// use its connections. If other goroutines wait for the loop, Unlock passes it to the one
// that has waited longest.
//
// An owner that needs an event calls Sleep, and others may own the loop until the event.
// One of the goroutines in Sleep leads: it waits until the descriptor of the loop is
// readable, then owns the loop, runs turns, and wakes the goroutines whose events have
// come. The others follow: each waits for a signal of its own. So a goroutine that sleeps
// alone gets its events without a switch to another goroutine.
//
//	           outside
//	       Lock  | ^  Unlock
//	             v |
//	            owner <---------------------------+
//	              |                               |
//	              | Sleep                         |
//	nobody leads  |  another leads                |
//	     +--------+--------+                      | its event,
//	     v                 v                      | or its timeout
//	   leader <-------- follower                  |
//	     |   the leader    |                      |
//	     |   has returned  |                      |
//	     +-----------------+----------------------+
//
// While nobody is in Sleep, a goroutine of this package leads, the stand-in. A timer
// starts it. When it gets an event while goroutines are in Sleep, it returns, and one of
// them leads next.
//
// The descriptor reports work only while the loop is armed. A turn ends that. Arming
// takes system calls, so Unlock arms the loop only if goroutines are in Sleep. Otherwise
// a goroutine may soon run turns again. If nobody has run a turn for about two
// milliseconds, the timer arms the loop.
package turns

import (
	"runtime"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A Loop is a loop of package reactor that several goroutines use, one at a time. Only
// the owner may call the methods, except Lock and Close.
type Loop struct {
	loop *reactor.Loop
	lock queuedLock

	// Only the owner uses the fields below.
	armed bool   // true if the loop is armed, so that its descriptor reports work
	turns uint64 // number of turns that were run
	err   error  // error that has ended the loop

	sleepers  int         // number of goroutines in Sleep
	leader    *Waiter     // Waiter of the goroutine that leads or was chosen to lead, or nil
	followers waiterQueue // goroutines that follow, in the order in which they have begun
	signals   waiterQueue // goroutines that leave() has to signal
	standIn   Waiter      // is the leader while the stand-in leads

	events descriptor
	idle   idleTimer
	// background counts the goroutine of the timer, and the timer while it is set.
	background sync.WaitGroup
}

// New takes over a loop that was made with reactor.NewLoop.
func New(loop *reactor.Loop) (*Loop, error) {
	l := &Loop{loop: loop}
	var err error
	if l.events, err = openDescriptor(loop.FD()); err != nil {
		return nil, operr.Wrap("watch loop", err)
	}
	l.Lock()
	l.idle.timer = time.AfterFunc(time.Hour, l.onIdleTimer)
	l.idle.timer.Stop()
	l.Unlock()
	return l, nil
}

// Close closes the loop, and waits until the goroutines of this package have returned. It
// is called once, by a goroutine that does not own the loop.
func (l *Loop) Close() error {
	l.Lock()
	err := l.loop.Close()
	l.end(reactor.ErrClosed)
	l.Unlock()
	l.background.Wait()
	return err
}

// end records that the loop has ended because of err. If the loop still runs, end closes
// it: the callbacks of its connections wake the goroutines that sleep.
func (l *Loop) end(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	_ = l.loop.Close() // The error err is more important.
	if l.idle.timer.Stop() {
		l.background.Done()
	}
	l.events.close()
}

// Reactor returns the loop of package reactor.
func (l *Loop) Reactor() *reactor.Loop { return l.loop }

// Lock waits until the calling goroutine owns the loop.
func (l *Loop) Lock() { l.lock.lock() }

// Unlock ends the ownership of the loop.
func (l *Loop) Unlock() {
	if l.sleepers > 0 {
		l.settle()
	}
	l.ensureLeader()
	l.leave()
}

// leave passes the loop to the next owner, and then signals the goroutines in
// l.signals, which so do not have to wait for the loop.
func (l *Loop) leave() {
	first := l.signals.first
	l.signals = waiterQueue{}
	l.lock.unlock()
	signalAll(first)
}

// Changed must be called after a call that has given the loop a timer or a connection
// that closes. An armed loop does not know of them.
func (l *Loop) Changed() { l.armed = false }

// Turn runs one turn of the loop, and returns how much work it had.
func (l *Loop) Turn() (work int) {
	if l.err != nil {
		return 0
	}
	l.turns++
	l.armed = false
	work, err := l.loop.RunOnce(0)
	if err != nil {
		l.end(err)
	}
	return work
}

// settle runs turns until there is no work and the loop is armed. If other goroutines
// wait for the loop, settle returns earlier, because each of them calls Unlock too.
func (l *Loop) settle() {
	for !l.armed && l.err == nil && !l.lock.contended() {
		l.turns++
		busy, err := l.loop.Poll(1)
		if err != nil {
			l.end(err)
			return
		}
		l.armed = !busy
	}
}

// yieldEvery is the number of turns after which a goroutine that spins lets others run.
// Arbitrary.
const yieldEvery = 16

// Spin runs turns until the function done returns true, or for about the time budget. The
// caller owns the loop before and after, but other goroutines may own it in the meantime.
// If other goroutines are in Sleep, or if the loop has ended, Spin does nothing: then the
// leader runs the turns, for all of them. The result is the last result of done.
func (l *Loop) Spin(done func() bool, budget time.Duration) bool {
	var start time.Time
	for turn := 1; !done(); turn++ {
		if l.sleepers > 0 || l.err != nil || budget <= 0 {
			return false
		}
		l.Turn()
		if l.lock.contended() {
			l.leave()
			l.Lock()
		}
		if turn%yieldEvery != 0 {
			continue
		}
		runtime.Gosched()
		now := time.Now()
		if start.IsZero() {
			start = now
		}
		if now.Sub(start) >= budget {
			return done()
		}
	}
	return true
}
