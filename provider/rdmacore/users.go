//go:build cgo && linux

package rdmacore

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore/internal/ccall"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A userCount counts the users of an object, which are the open objects that need it. An
// object with users can not be closed. Any goroutine may call the methods.
type userCount struct {
	mu     sync.Mutex
	count  int
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

func (u *userCount) remove() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count--
}

// close destroys the object with destroy(). If the object has users, it returns ErrBusy.
// If destroy() fails, the object stays open. A second close() does nothing.
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

// whileOpen calls fn, or returns ErrClosed if the object is closed. While fn runs,
// close() and other calls of whileOpen wait.
func (u *userCount) whileOpen(fn func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return verbs.ErrClosed
	}
	return fn()
}

// addUsers adds one user to each object. If an object is closed, addUsers returns
// ErrClosed and adds no users.
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
	// true with manual progress: one goroutine owns the object, so enter takes no lock
	owned bool
	caller
}

func newGuard(p verbs.Progress) guard {
	if p != verbs.ProgressManual {
		return guard{}
	}
	return guard{owned: true, caller: caller{ccall.NewStack()}}
}

// share gives a queue the same owner as its CQ.
func (g *guard) share(q *cq) { g.owned, g.caller = q.owned, q.caller }

// enter begins the use of the object. leave() ends it.
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
