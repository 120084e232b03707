package access

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// AnyUser stands for every user in a list of allowed users. No user has this ID: it is
// (uid_t) -1, see chown(2).
const AnyUser = math.MaxUint32

// A Users decides which users of this host may be peers. Any goroutine may call its
// methods.
type Users struct {
	own     uint32   // effective user ID of this process when the device was opened
	allowed []uint32 // users that are allowed in addition to root and own
	// unmapped is the user ID that the kernel reports for users who are not mapped into
	// this user namespace. It is noUser if every user is mapped.
	unmapped uint32
}

// noUser is a user ID that no user has: (uid_t) -1.
const noUser = math.MaxUint32

// NewUsers returns a Users that allows root, the user of this process, and the users in
// the list allowed. It keeps that list.
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
	return 65534 // The file could not be read; 65534 is the kernel's default.
}

// mapsAllUsers reports whether the table of /proc/PID/uid_map maps every user ID, as that
// of the initial user namespace does. The last number in each line of the table is the
// number of IDs that the line maps.
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

// Allows reports whether the processes of a user may be peers. If uid is the unmapped
// user ID, Allows returns false unless every user is allowed. The reason is that the
// kernel reports this ID for many users, even if this process itself has the same ID.
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
