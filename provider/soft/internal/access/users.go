package access

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// AnyUser in the list of allowed users allows the processes of every user. No user has
// this number: it is (uid_t) -1, see chown(2).
const AnyUser = math.MaxUint32

// Users decides which users of this host may be peers. Any goroutine may use it.
type Users struct {
	own     uint32   // effective user ID of this process when the device was opened
	allowed []uint32 // users that are allowed in addition to root and own
	// unmapped is the user ID that the kernel reports for users who are not mapped into
	// this user namespace. It is noUser if every user is mapped.
	unmapped uint32
}

// noUser is (uid_t) -1, which no user has.
const noUser = math.MaxUint32

// NewUsers returns the users that this process allows: root, its own user, and the users
// of the list allowed, which NewUsers keeps.
func NewUsers(allowed []uint32) Users {
	return Users{own: uint32(os.Geteuid()), allowed: allowed, unmapped: unmappedUser()}
}

// unmappedUser returns Users.unmapped for this process. See user_namespaces(7).
func unmappedUser() uint32 {
	if ids, err := os.ReadFile("/proc/self/uid_map"); err == nil && mapsAllUsers(string(ids)) {
		return noUser
	}
	number, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err == nil {
		var uid uint32
		if _, err = fmt.Sscan(string(number), &uid); err == nil {
			return uid
		}
	}
	return 65534 // default value of the kernel
}

// mapsAllUsers reports whether a table of /proc/PID/uid_map maps every user ID, as in
// the initial user namespace. The last number of a line is the number of IDs.
func mapsAllUsers(table string) bool {
	sum := uint64(0)
	for line := range strings.Lines(table) {
		var inside, outside, count uint32
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil {
			return false
		}
		sum += uint64(count)
	}
	return sum == math.MaxUint32
}

// Allows reports whether the processes of a user may be peers. The unmapped user ID
// may stand for any user, so it never counts as the user of this process.
func (p Users) Allows(uid uint32) bool {
	switch {
	case p.allowsAll():
		return true
	case uid == p.unmapped:
		return false
	}
	return uid == p.own || uid == 0 || slices.Contains(p.allowed, uid)
}

// allowsAll reports whether the processes of every user may be peers.
func (p Users) allowsAll() bool { return slices.Contains(p.allowed, AnyUser) }
