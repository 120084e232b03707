//go:build rdmacore && cgo && linux

package rdmacore

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// users counts the objects that use an object, and closes the object once. Any goroutine
// may call.
type users struct {
	mu     sync.Mutex
	count  int // objects that use this object and are not closed
	closed bool
}

// add adds a user. The object can not be closed before remove is called for the user.
func (u *users) add() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return verbs.ErrClosed
	}
	u.count++
	return nil
}

// remove removes a user that was added.
func (u *users) remove() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count--
}

// close closes the object with destroy, unless it is already closed. It returns ErrBusy
// if the object has users.
func (u *users) close(destroy func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	if u.count > 0 {
		return verbs.ErrBusy
	}
	if err := destroy(); err != nil {
		return err
	}
	u.closed = true
	return nil
}

// whileOpen executes a call during which the object can not be closed. Such calls
// exclude each other.
func (u *users) whileOpen(call func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return verbs.ErrClosed
	}
	return call()
}

// addUsers adds a user to all objects of the list, or to none if one is closed.
func addUsers(list []*users) error {
	for i, u := range list {
		if err := u.add(); err != nil {
			removeUsers(list[:i])
			return err
		}
	}
	return nil
}

func removeUsers(list []*users) {
	for _, u := range list {
		u.remove()
	}
}

// A guard lets one goroutine at a time use an object. With manual progress one goroutine
// owns the object and nothing is locked.
type guard struct {
	mu    sync.Mutex
	owned bool // manual progress: no lock is needed
}

func newGuard(p verbs.Progress) guard { return guard{owned: p == verbs.ProgressManual} }

// enter begins the use of the object, and leave ends it.
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
