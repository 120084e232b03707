//go:build rdmacore && cgo && linux

package rdmacore

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore/internal/ccall"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A userCount counts the open objects that use an object. While there are any, the
// object can not be closed. Any goroutine may call the methods.
type userCount struct {
	mu     sync.Mutex
	count  int // number of users
	closed bool
}

// add adds one user. It returns ErrClosed if the object is closed.
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

// close calls destroy(). If destroy() fails, the object stays open. close() returns
// ErrBusy if the object has users. A second close() does nothing.
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

// whileOpen calls fn if the object is open, and otherwise returns ErrClosed. Until fn
// returns, close() and other calls of whileOpen wait.
func (u *userCount) whileOpen(fn func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return verbs.ErrClosed
	}
	return fn()
}

// addUsers adds one user to each object. If one is closed, it changes none and returns
// ErrClosed.
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

// A guard lets one goroutine at a time use an object.
type guard struct {
	mu sync.Mutex
	// true for manual progress: one goroutine owns the object, so no lock is needed
	owned bool
	caller
}

func newGuard(p verbs.Progress) guard {
	if p != verbs.ProgressManual {
		return guard{}
	}
	return guard{owned: true, caller: caller{ccall.NewStack()}}
}

// share makes the guard one of the owner of the CQ q.
func (g *guard) share(q *cq) { g.owned, g.caller = q.owned, q.caller }

// enter begins the use of the object. leave() must follow.
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
