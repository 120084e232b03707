package access

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUserPolicy(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy Users
		uid    uint32
		want   bool
	}{
		{"the same user", Users{own: 1000, unmapped: 65534}, 1000, true},
		{"root", Users{own: 1000, unmapped: 65534}, 0, true},
		{"another user", Users{own: 1000, unmapped: 65534}, 1001, false},
		{"another user of a root process", Users{own: 0, unmapped: 65534}, 1001, false},
		{"a listed user", Users{own: 1000, allowed: []uint32{7, 1001}, unmapped: 65534}, 1001, true},
		{"a user beside the list", Users{own: 1000, allowed: []uint32{7}, unmapped: 65534}, 1001, false},
		{"any user", Users{own: 1000, allowed: []uint32{AnyUser}}, 1001, true},
		{"the unmapped user as own", Users{own: 65534, unmapped: 65534}, 65534, false},
		{"the unmapped user in the list", Users{own: 1000, allowed: []uint32{65534}, unmapped: 65534}, 65534, false},
		{"the unmapped user among any", Users{own: 1000, allowed: []uint32{AnyUser}, unmapped: 65534}, 65534, true},
		{"that user where all are mapped", Users{own: 65534, unmapped: noUser}, 65534, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.policy.Allows(c.uid))
		})
	}
}

func TestMapsAllUsers(t *testing.T) {
	for table, want := range map[string]bool{
		"         0          0 4294967295\n":      true,
		"0 100000 65536\n":                        false,
		"0 1000 1\n1 100000 65536\n":              false,
		"0 0 1000\n1000 1000 4294966295\n":        true,
		"":                                        false,
		"0 0 everybody\n":                         false,
		"0 0 4294967295\n0 0 4294967295\n0 0 1\n": false,
	} {
		require.Equal(t, want, mapsAllUsers(table), table)
	}
}
