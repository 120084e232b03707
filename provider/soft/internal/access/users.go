package access

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// AnyUser in a list of allowed users allows every user. No user has this ID (chown(2)).
const AnyUser = math.MaxUint32

// A Users decides which users of this host may be peers. Any goroutine may call its
// methods.
type Users struct {
	own     uint32   // effective user ID of this process when the device was opened
	allowed []uint32 // users that are allowed in addition to root and own
	// User ID that the kernel reports for all users who have no ID in this user
	// namespace; noUser if every user has one.
	unmapped uint32
}

// noUser is a user ID that no user has: (uid_t) -1.
const noUser = math.MaxUint32

// NewUsers returns a Users that allows root, the user of this process, and the users in
// the slice. The caller must not change the slice afterwards.
func NewUsers(allowed []uint32) Users {
	return Users{own: uint32(os.Geteuid()), allowed: allowed, unmapped: unmappedUser()}
}

// unmappedUser returns the value of Users.unmapped for this process. See
// user_namespaces(7).
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
	return 65534 // default of overflowuid in the kernel, used if the file can not be read
}

// mapsAllUsers reports whether a table of /proc/PID/uid_map maps every user ID. The last
// number in a line says how many IDs the line maps.
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

// Allows reports whether a user's processes may be peers. The kernel reports one ID for
// all users who have none in this user namespace. This ID is allowed only with AnyUser.
func (p Users) Allows(uid uint32) bool {
	switch {
	case p.allowsAll():
		return true
	case uid == p.unmapped:
		return false
	}
	return uid == p.own || uid == 0 || slices.Contains(p.allowed, uid)
}

// IsOwn reports whether uid is the user of this process. The result is false for the ID
// that the kernel reports for all users who have none in this user namespace.
func (p Users) IsOwn(uid uint32) bool { return uid == p.own && uid != p.unmapped }

func (p Users) allowsAll() bool { return slices.Contains(p.allowed, AnyUser) }
