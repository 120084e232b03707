package turns

import (
	"os"
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

	// Only the owner uses the fields below, up to watch.
	armed    bool    // true if the loop is armed, so that its descriptor reports work
	turns    uint64  // number of turns that were run
	sleepers int     // number of goroutines in Sleep
	woken    *Waiter // list of the Waiters that leave() has to wake
	err      error   // error that has ended the loop

	watch watchState
	// fd is a duplicate of the loop's descriptor, for which the Go runtime waits.
	fd *os.File
	// watchers counts the goroutines of this package, and the timer while it is set.
	watchers sync.WaitGroup
}

// New takes over a loop that was made with reactor.NewLoop.
func New(loop *reactor.Loop) (*Loop, error) {
	fd, err := duplicate(loop.FD())
	if err != nil {
		return nil, operr.Wrap("watch loop", err)
	}
	l := &Loop{loop: loop, fd: fd}
	l.Lock()
	l.watch.init(l)
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
	l.watchers.Wait()
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
	if l.watch.timer.Stop() {
		l.watchers.Done()
	}
	_ = l.fd.Close() // The error does not matter, because the descriptor is a duplicate.
}

// Reactor returns the loop of package reactor.
func (l *Loop) Reactor() *reactor.Loop { return l.loop }

// Lock waits until the calling goroutine owns the loop.
func (l *Loop) Lock() { l.lock.lock() }

// Contended reports whether other goroutines wait until they own the loop.
func (l *Loop) Contended() bool { return l.lock.contended() }

// Unlock ends the ownership of the loop.
func (l *Loop) Unlock() {
	if l.sleepers > 0 {
		l.settle()
	}
	l.ensureWatch()
	l.leave()
}

// leave passes the loop to the next owner, and wakes the goroutines in the list woken.
func (l *Loop) leave() {
	woken := l.woken
	l.woken = nil
	l.lock.unlock()
	wakeAll(woken)
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
	for !l.armed && l.err == nil && !l.Contended() {
		if l.Turn() > 0 {
			continue
		}
		busy, err := l.loop.Arm()
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
// watcher runs the turns, for all of them. The result is the last result of done.
func (l *Loop) Spin(done func() bool, budget time.Duration) bool {
	var start time.Time
	for turn := 1; !done(); turn++ {
		if l.sleepers > 0 || l.err != nil || budget <= 0 {
			return false
		}
		l.Turn()
		if l.Contended() {
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
