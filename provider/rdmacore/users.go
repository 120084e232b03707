//go:build rdmacore && cgo && linux

package rdmacore

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A users counts the users of an object: the open objects that need this object. As long
// as there are users, the object can not be closed. A users also ensures that the object
// is closed only once. Any goroutine may call its methods.
type users struct {
	mu     sync.Mutex
	count  int // number of users
	closed bool
}

// add adds one user. The object can not be closed until remove is called for that user.
// If the object is closed, add returns ErrClosed.
func (u *users) add() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return verbs.ErrClosed
	}
	u.count++
	return nil
}

// remove removes one user.
func (u *users) remove() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count--
}

// close calls destroy, unless the object is already closed. It returns ErrBusy if the
// object has users.
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

// whileOpen calls the function call while the object is open. If the object is closed, it
// returns ErrClosed and does not call the function. While the function runs, the object
// can not be closed, and other calls of whileOpen for this object wait.
func (u *users) whileOpen(call func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return verbs.ErrClosed
	}
	return call()
}

// addUsers adds one user to each object in the list. If one of the objects is closed, it
// changes none of them and returns ErrClosed.
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

// A guard lets one goroutine at a time use an object. With manual progress the object
// belongs to one goroutine, so the guard takes no lock.
type guard struct {
	mu sync.Mutex
	// true for manual progress: one goroutine owns the object, so no lock is needed
	owned bool
}

func newGuard(p verbs.Progress) guard { return guard{owned: p == verbs.ProgressManual} }

// enter begins the use of the object. The caller calls leave at its end.
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
