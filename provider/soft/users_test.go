package soft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUserPolicy(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy userPolicy
		uid    uint32
		want   bool
	}{
		{"the same user", userPolicy{own: 1000}, 1000, true},
		{"root", userPolicy{own: 1000}, 0, true},
		{"another user", userPolicy{own: 1000}, 1001, false},
		{"another user of a root process", userPolicy{own: 0}, 1001, false},
		{"a listed user", userPolicy{own: 1000, allowed: []uint32{7, 1001}}, 1001, true},
		{"a user beside the list", userPolicy{own: 1000, allowed: []uint32{7}}, 1001, false},
		{"any user", userPolicy{own: 1000, allowed: []uint32{AnyUser}}, 1001, true},
		{"the unmapped user as own", userPolicy{own: unmappedUser}, unmappedUser, false},
		{"the unmapped user in the list", userPolicy{own: 1000, allowed: []uint32{unmappedUser}}, unmappedUser, false},
		{"the unmapped user among any", userPolicy{own: 1000, allowed: []uint32{AnyUser}}, unmappedUser, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.policy.allows(c.uid))
		})
	}
}
