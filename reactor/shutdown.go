package reactor

import (
	"context"
	"errors"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// abortTimeout is how long Shutdown waits for loops that are to end at once. Only a
// callback that does not return can hold one.
const abortTimeout = time.Second

// Stop begins to shut down, and returns at once: no listening and no dialing any
// more, requests are turned away, connections closed in order, and then the
// loops end. It may be called in callbacks, and more than once.
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
			_ = l.post("stop", l.drain, true) // one that has ended needs no telling
		} else {
			l.drain()
			l.finishTurn()
		}
	}
}

// Shutdown stops the engine and waits for it. All that connections had accepted
// for sending is delivered, within Config.DrainTimeout. When ctx ends first,
// what is left is cut off: the connections end with ErrShutdown, and Shutdown
// returns the context's error. Otherwise it returns what Wait does.
//
// The engine of a loop made with NewLoop ends only as that loop is run: while it
// has not ended, Shutdown and Wait do nothing and return an error that matches
// verbs.ErrState. Use Loop.Stop and Loop.Close.
func (e *Engine) Shutdown(ctx context.Context) error {
	if err := e.checkWaitable("shut down"); err != nil {
		return err
	}
	e.Stop()
	select {
	case <-e.done:
		return e.Wait()
	case <-ctx.Done():
	}
	if e.hasEnded() {
		return e.Wait()
	}
	for _, l := range e.loops {
		_ = l.post("cut", l.abortConns, true)
	}
	err := verbs.Wrap("shut down", context.Cause(ctx))
	select {
	case <-e.done:
		return errors.Join(err, e.Wait())
	case <-time.After(abortTimeout):
		return errors.Join(err, verbs.Wrap("end loops", verbs.ErrBusy))
	}
}

func (e *Engine) hasEnded() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// Wait waits until the engine has ended, and returns the first error that is
// nobody else's: one that made it stop, or a resource that could not be given
// back. See Shutdown for a loop made with NewLoop.
func (e *Engine) Wait() error {
	if err := e.checkWaitable("wait for engine"); err != nil {
		return err
	}
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (e *Engine) checkWaitable(op string) error {
	if e.embedded && !e.hasEnded() {
		return verbs.Wrap(op, verbs.ErrState)
	}
	return nil
}

// drain closes all connections of the loop; settle ends it when they are gone.
func (l *Loop) drain() {
	l.draining = true
	for c := range l.conns.all() {
		switch {
		case c.state < StateOpen:
			c.beginClose(ErrShutdown)
		case c.state == StateOpen:
			_ = c.Close() // it is open
		}
	}
}

// cut ends all connections of the loop without waiting for their peers. In each turn
// up to closeBudget of them take a step.
func (l *Loop) abortConns() {
	l.draining, l.aborting = true, true
	for c := range l.conns.all() {
		c.scheduleAdvance()
	}
}

func (c *Conn) abortNow() {
	c.beginClose(ErrShutdown)
	switch {
	case c.state < StateOpen:
		c.failOpen(ErrShutdown)
		return
	case c.state == StateClosing:
		c.reportClose()
	}
	if c.state == StateParting {
		c.destroy()
	}
}

// end is the last thing a loop does.
func (l *Loop) end() {
	l.ended = true
	l.mailbox.close()
	l.mailbox.run() // dials and accepts that came late get their answer
	if l.booted {
		l.handler.OnShutdown(l)
	}
	l.recordError(l.release())
	l.publish(true)
	l.engine.ended(l)
}

// release gives back what open made.
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
		err = firstError(err, l.timerFD.close())
	}
	if l.poller != nil {
		err = firstError(err, l.poller.Close())
	}
	return err
}

// ended counts a loop out.
func (e *Engine) ended(l *Loop) {
	e.recordError(l.err)
	if e.running.Add(-1) == 0 {
		close(e.done)
	}
}
