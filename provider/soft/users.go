package soft

import (
	"math"
	"os"
	"slices"
)

// AnyUser in Config.AllowedUsers allows the processes of every user. It is the
// number that no user has: (uid_t) -1, see chown(2).
const AnyUser = math.MaxUint32

// unmappedUser is the user ID that the kernel reports for users who have none in
// this user namespace: the default of /proc/sys/kernel/overflowuid, see
// user_namespaces(7).
const unmappedUser = 65534

// A userPolicy says which users of this host may be peers on the local path.
type userPolicy struct {
	own     uint32   // the effective user ID of this process when the device was opened
	allowed []uint32 // Config.AllowedUsers
}

func newUserPolicy(cfg *Config) userPolicy {
	return userPolicy{own: uint32(os.Geteuid()), allowed: cfg.AllowedUsers}
}

// allows reports whether the processes of a user may be peers. The unmapped user
// ID may stand for any user, so it never counts as this process's own.
func (p userPolicy) allows(uid uint32) bool {
	switch {
	case slices.Contains(p.allowed, AnyUser):
		return true
	case uid == unmappedUser:
		return false
	}
	return uid == p.own || uid == 0 || slices.Contains(p.allowed, uid)
}
