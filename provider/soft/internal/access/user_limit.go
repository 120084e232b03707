//go:build linux

package access

import (
	"maps"
	"sync"

	"golang.org/x/sys/unix"
)

// A UserLimit limits the number of connections that the processes of one user have to the
// listeners and to the UD queue pairs of a device. Without it, one user could use up the
// descriptors and the memory that other users need. Root and the user of the device's
// process have no limit, because they can end this process anyway. There is one
// exception: the user of the device's process has the limit if its number is also the
// number that the kernel reports for unmapped users.
//
// The methods may be called from any goroutine.
type UserLimit struct {
	own      uint32 // user ID of the process that has opened the device
	unmapped uint32 // user ID that the kernel reports for unmapped users; see Users
	// largest number of connections of each user other than root and own; negative means
	// no limit
	limit int

	mu    sync.Mutex
	conns map[uint32]int // number of connections by user ID
}

// NewUserLimit returns a UserLimit. The parameter limit is the largest number of
// connections of each user. With 0, NewUserLimit computes this number from the limit of
// descriptors of this process. A negative number means no limit.
func NewUserLimit(limit int, users Users) *UserLimit {
	if limit == 0 {
		limit = defaultConnsPerUser()
	}
	return &UserLimit{own: users.own, unmapped: users.unmapped, limit: limit, conns: make(map[uint32]int)}
}

// defaultConnsPerUser returns the number of connections that NewUserLimit uses for 0:
// one eighth of the limit of open descriptors (getrlimit(2), RLIMIT_NOFILE). Each
// connection takes two descriptors, and one user gets a quarter of all connections.
func defaultConnsPerUser() int {
	const parts, descriptors = 4, 2
	// If the limit of open descriptors is larger than maxDescriptors, or if there is no
	// limit, the computation uses maxDescriptors instead. The number is arbitrary.
	const maxDescriptors = 1 << 20
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		limit.Cur = 1024 // the default limit of most systems
	}
	return int(max(1, min(limit.Cur, maxDescriptors)/(parts*descriptors)))
}

// Acquire counts a connection of the user uid. If the user already has the largest
// allowed number of connections, Acquire returns false and counts nothing.
func (l *UserLimit) Acquire(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit >= 0 && l.conns[uid] >= l.limit && uid != 0 && (uid != l.own || uid == l.unmapped) {
		return false
	}
	l.conns[uid]++
	return true
}

// Release undoes one Acquire for the user uid, whose connection has ended.
func (l *UserLimit) Release(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[uid]--; l.conns[uid] == 0 {
		delete(l.conns, uid)
	}
}

// Counts returns the number of connections of each user that has any, by user ID. It is
// meant for tests.
func (l *UserLimit) Counts() map[uint32]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.conns)
}
