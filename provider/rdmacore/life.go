//go:build rdmacore && cgo && linux

package rdmacore

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A life counts what uses an object, and ends the object once. Any goroutine may
// call.
type life struct {
	mu     sync.Mutex
	users  int
	closed bool
}

// join counts a user, which the object outlives.
func (l *life) join() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return verbs.ErrClosed
	}
	l.users++
	return nil
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
}

// end closes the object with destroy, unless it is closed already, or in use.
func (l *life) end(destroy func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.users > 0 {
		return verbs.ErrBusy
	}
	if err := destroy(); err != nil {
		return err
	}
	l.closed = true
	return nil
}

// whileOpen carries out a call on the object, which can not be closed meanwhile.
// Calls wait for each other.
func (l *life) whileOpen(call func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return verbs.ErrClosed
	}
	return call()
}

// joinAll joins several, or none.
func joinAll(lives []*life) error {
	for i, l := range lives {
		if err := l.join(); err != nil {
			leaveAll(lives[:i])
			return err
		}
	}
	return nil
}

func leaveAll(lives []*life) {
	for _, l := range lives {
		l.leave()
	}
}

// A guard lets one goroutine at a time at what several may use. With manual
// progress one goroutine owns it, and there is nothing to lock.
type guard struct {
	mu    sync.Mutex
	owned bool
}

func newGuard(p verbs.Progress) guard { return guard{owned: p == verbs.ProgressManual} }

func (g *guard) enter() {
	if !g.owned {
		g.mu.Lock()
	}
}

func (g *guard) leave() {
	if !g.owned {
		g.mu.Unlock()
	}
}
