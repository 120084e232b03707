package reactor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// abortTimeout is how long Shutdown waits for the loops after ctx is done. A loop does
// not end while a callback blocks. The number is arbitrary.
const abortTimeout = time.Second

// silentLimit is how long the connection of a silent peer may take to close when the
// engine stops: see Conn.isSilent. A correct peer answers within a few round trips. The
// number is arbitrary.
const silentLimit = time.Second

// Stop begins to shut down the engine, and returns at once. It closes the listeners,
// rejects unanswered requests, and closes all connections as Conn.Close does, or as Handler.OnStop
// does. Then the loops end.
//
// After Stop, Dial and Listen return ErrShutdown. When all loops have ended, Dial and
// Listen return ErrClosed. Stop may be called in callbacks, and more than once.
func (e *Engine) Stop() {
	e.mu.Lock()
	again, started := e.stopping.Swap(true), e.started
	e.mu.Unlock()
	if again {
		return
	}
	e.recordError(e.acceptor.close())
	for _, l := range e.loops {
		if started {
			_ = l.post("stop", l.drain, true) // Loop.post() fails only if the loop has ended
		} else {
			l.drain()
			l.finishTurn()
		}
	}
}

// Shutdown calls Stop, waits until the engine has ended, and returns the result of Wait.
// Each connection closes when the peer has confirmed everything, or after
// Config.Limits.DrainTimeout, even if ctx has longer.
// Connections that are not established end at once. An accepted connection whose peer has
// sent and confirmed nothing since OnOpen ends with ErrShutdown after a second. A peer that
// has sent something and then answers nothing delays the shutdown by Config.Limits.DrainTimeout. One
// that is known to be dead, because its connection has ended with ErrKeepalive,
// verbs.ErrPeerGone or verbs.StatusRetryExcErr, does not delay it. In a callback of the engine
// the error matches verbs.ErrState.
//
// When ctx is done, the remaining connections end with ErrShutdown, and Shutdown returns
// context.Cause(ctx). If a callback blocks, the error also matches verbs.ErrBusy.
//
// For a loop made with NewLoop, use Stop and Loop.Close instead. Until the loop has
// ended, Shutdown and Wait return an error that matches verbs.ErrState.
func (e *Engine) Shutdown(ctx context.Context) error {
	if err := e.checkWaitable("shut down"); err != nil {
		return err
	}
	e.Stop()
	if e.await(ctx) {
		return e.Wait()
	}
	for _, l := range e.loops {
		_ = l.post("abort", l.abortConns, true)
	}
	err := operr.Wrap("shut down", context.Cause(ctx))
	limit, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	if e.await(limit) {
		return errors.Join(err, e.Wait())
	}
	return errors.Join(err, operr.Wrap("end loops", fmt.Errorf("%w: a callback has not returned", verbs.ErrBusy)))
}

// errWaitsForItself is the error of a call that would wait for the callback in which it is.
var errWaitsForItself = stateError("a callback can not wait for its own loop")

// await waits until the engine has ended or ctx is done. It reports whether the engine has
// ended.
func (e *Engine) await(ctx context.Context) (ended bool) {
	if e.sim != nil {
		defer context.AfterFunc(ctx, func() { e.sim.Call(func() {}) })()
		e.sim.Wait(func() bool { return e.hasEnded() || ctx.Err() != nil })
		return e.hasEnded()
	}
	select {
	case <-e.done:
	case <-ctx.Done():
	}
	return e.hasEnded()
}

// stoppedError returns the error of Dial and Listen after Stop.
func (e *Engine) stoppedError() error {
	if e.hasEnded() {
		return closedError("the engine")
	}
	return ErrShutdown
}

// hasEnded reports whether all loops have ended.
func (e *Engine) hasEnded() bool { return isClosed(e.done) }

// Wait waits until the engine has ended. It returns the first error that no callback or
// method has reported, such as an error that made the engine stop. For an engine of
// NewLoop see Shutdown.
func (e *Engine) Wait() error {
	if err := e.checkWaitable("wait for engine"); err != nil {
		return err
	}
	e.await(context.Background())
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// checkWaitable returns an error if the caller would wait for itself: in a callback of the
// engine, or if the application runs the engine's loop and that loop has not ended.
func (e *Engine) checkWaitable(op string) error {
	switch {
	case slices.ContainsFunc(e.loops, func(l *Loop) bool { return l.owner.isCaller() }):
		return operr.Wrap(op, errWaitsForItself)
	case e.embedded && !e.hasEnded():
		return operr.Wrap(op, stateError("the application runs the loop, which has not ended"))
	}
	return nil
}

// drain closes all connections of the loop. Those that are opening end with ErrShutdown.
// Those of silent peers end after silentLimit. After the last connection finishTurn ends
// the loop.
func (l *Loop) drain() {
	l.enter(loopDraining)
	l.silentTimer.Owner = timerheap.Func(l.dropSilent)
	l.setTimer(&l.silentTimer, silentLimit)
	l.stopConns()
}

// stopConns begins to close the connections that do not close yet.
func (l *Loop) stopConns() {
	for c := range l.conns.all() {
		switch {
		case c.state < stateOpen:
			c.endWith(ErrShutdown)
		case c.state == stateOpen && !c.stateTimer.Running(): // OnStop was not called.
			c.stop()
		}
	}
}

// dropSilent makes the loop end the connections of silent peers without waiting for them.
func (l *Loop) dropSilent() {
	l.enter(loopDroppingSilent)
	for c := range l.conns.all() {
		if c.isSilent() {
			c.scheduleStep()
		}
	}
}

// isSilent reports whether the connection was accepted, and its peer has sent and
// confirmed nothing since OnOpen. Any host can open such a connection. The comparison of
// the times is for the answer to a keepalive probe.
func (c *Conn) isSilent() bool {
	return !c.dialed() && c.stats.Messages+c.stats.Confirmed == 0 && c.traffic().fromPeer() == c.times.openedAt
}

// abortConns makes the loop end all connections without waiting for their peers, up to
// closeBudget connections in each turn.
func (l *Loop) abortConns() {
	l.enter(loopAborting)
	for c := range l.conns.all() {
		c.scheduleStep()
	}
}

// mustGiveUp reports whether the connection ends without waiting for the peer or the
// device.
func (c *Conn) mustGiveUp() bool {
	return c.loop.state >= loopAborting || c.loop.state == loopDroppingSilent && c.isSilent()
}

// end ends the loop: it calls OnShutdown, and releases the loop's resources.
func (l *Loop) end() {
	l.enter(loopEnded)
	l.mailbox.close()
	l.mailbox.run() // Calls of Dial and Accept may have posted functions.
	l.publish(true) // for OnShutdown
	if down := l.cfg.OnShutdown; l.booted && down != nil {
		down(l)
	}
	l.recordError(l.release())
	l.publish(true)
	l.engine.ended(l)
}

// release releases the resources of the loop.
func (l *Loop) release() (err error) {
	for _, d := range l.devices {
		err = firstError(err, d.close())
	}
	if l.index == 0 {
		err = firstError(err, l.engine.acceptor.channel.Close())
	}
	if l.channel != nil {
		err = firstError(err, l.channel.Close())
	}
	if l.timerFD != nil {
		err = firstError(err, l.timerFD.Close())
	}
	if l.poller != nil {
		err = firstError(err, l.poller.Close())
	}
	return err
}

// ended is called when a loop has ended. It records the error of the loop. After the
// last loop it calls closeMemory, and closes Engine.done.
func (e *Engine) ended(l *Loop) {
	e.recordError(l.err)
	if e.running.Add(-1) == 0 {
		e.recordError(e.closeMemory())
		claims.release(e)
		close(e.done)
	}
}

// closeMemory closes the regions and the domains, when all loops have ended.
func (e *Engine) closeMemory() error {
	return firstError(e.regions.closeAll(), e.domains.Close())
}
