//go:build linux

package access

import (
	"maps"
	"sync"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
)

// A UserLimit limits the connections of each user to a device. The limit does not apply
// to root and the user of this process. It always applies to users without an ID in this
// user namespace, because the kernel reports the same number for all of them. Any
// goroutine may call the methods.
type UserLimit struct {
	own      uint32 // user ID of this process
	unmapped uint32 // user ID that the kernel reports for unmapped users; see Users
	// Largest number of connections of a user; negative means no limit.
	limit int

	mu    sync.Mutex
	conns map[uint32]int // number of connections by user ID
}

// NewUserLimit returns a UserLimit. The parameter limit is the largest number of
// connections of a user. 0 means a default, and a negative number no limit.
func NewUserLimit(limit int, users Users) *UserLimit {
	if limit == 0 {
		limit = defaultConnsPerUser()
	}
	return &UserLimit{own: users.own, unmapped: users.unmapped, limit: limit, conns: make(map[uint32]int)}
}

// defaultConnsPerUser returns the number of connections that use a quarter of the
// descriptors that this process may open (RLIMIT_NOFILE). A connection uses two.
func defaultConnsPerUser() int {
	const parts, descriptors = 4, 2
	return max(1, resource.MaxDescriptors()/(parts*descriptors))
}

// Acquire counts a connection of the user uid. If the user has reached the limit,
// Acquire counts nothing and returns false.
func (l *UserLimit) Acquire(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit >= 0 && l.conns[uid] >= l.limit && uid != 0 && (uid != l.own || uid == l.unmapped) {
		return false
	}
	l.conns[uid]++
	return true
}

// Release undoes one Acquire for the user uid.
func (l *UserLimit) Release(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[uid]--; l.conns[uid] == 0 {
		delete(l.conns, uid)
	}
}

// Counts returns the number of connections by user ID. It is meant for tests.
func (l *UserLimit) Counts() map[uint32]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.conns)
}
