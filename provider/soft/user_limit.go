//go:build linux

package soft

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A userLimit limits the number of connections that the processes of one user have to
// the listeners and to the UD queue pairs of a device, so that one user can not use up
// the resources for all users. Root and the user that the device belongs to have no
// limit, because they can end this process anyway.
//
// The methods may be called from any goroutine.
type userLimit struct {
	own      uint32 // user that the device belongs to
	unmapped uint32 // copy of userPolicy.unmapped: a user ID that may stand for any user
	// largest number of connections of each user other than root and own; negative means
	// no limit
	limit int

	mu    sync.Mutex
	conns map[uint32]int // number of connections by user ID
}

func newUserLimit(cfg *Config, users userPolicy) *userLimit {
	most := cfg.MaxConnsPerUser
	if most == 0 {
		most = defaultConnsPerUser()
	}
	return &userLimit{own: users.own, unmapped: users.unmapped, limit: most, conns: make(map[uint32]int)}
}

// defaultConnsPerUser returns the default of Config.MaxConnsPerUser. It is a quarter of
// the connections that the descriptor limit allows at the time when the device is opened
// (getrlimit(2), RLIMIT_NOFILE). Each connection takes two descriptors.
func defaultConnsPerUser() int {
	const parts, descriptors = 4, 2
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		limit.Cur = 1024 // the default of most systems
	}
	return int(max(1, min(limit.Cur, maxConnsPerUser)/(parts*descriptors)))
}

// acquire counts a connection of a user. It returns false if the user has too many.
func (l *userLimit) acquire(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit >= 0 && l.conns[uid] >= l.limit && uid != 0 && (uid != l.own || uid == l.unmapped) {
		return false
	}
	l.conns[uid]++
	return true
}

// release ends a connection that acquire has counted.
func (l *userLimit) release(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[uid]--; l.conns[uid] == 0 {
		delete(l.conns, uid)
	}
}
