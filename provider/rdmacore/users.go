//go:build rdmacore && cgo && linux

package rdmacore

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A userCount counts the users of an object: the open objects that need this object. As
// long as there are users, the object can not be closed. A userCount also ensures that
// the object is closed only once. Any goroutine may call its methods.
type userCount struct {
	mu     sync.Mutex
	count  int // number of users
	closed bool
}

// add adds one user. The object can not be closed until remove is called for that user.
// If the object is closed, add returns ErrClosed.
func (u *userCount) add() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return verbs.ErrClosed
	}
	u.count++
	return nil
}

// remove removes one user.
func (u *userCount) remove() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count--
}

// close calls the given function, which destroys the object. If the function fails, the
// object stays open, and close returns the error. close returns ErrBusy if the object has
// users, and does nothing if the object is already closed.
func (u *userCount) close(destroy func() error) error {
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

// whileOpen calls the given function while the object is open. If the object is closed,
// it returns ErrClosed and does not call the function. While the function runs, the
// object can not be closed, and other calls of whileOpen for this object wait.
func (u *userCount) whileOpen(fn func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return verbs.ErrClosed
	}
	return fn()
}

// addUsers adds one user to each object in the list. If one of the objects is closed, it
// changes none of them and returns ErrClosed.
func addUsers(list []*userCount) error {
	for i, u := range list {
		if err := u.add(); err != nil {
			removeUsers(list[:i])
			return err
		}
	}
	return nil
}

func removeUsers(list []*userCount) {
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

// enter begins the use of the object. The caller must call leave when the use ends.
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
