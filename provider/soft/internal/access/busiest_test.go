package access

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// LeastUsedOfBusiest returns a connection of the user with most connections. The new
// connection counts too.
func TestLeastUsedOfBusiest(t *testing.T) {
	type conn struct {
		uid     uint32
		lastUse int
	}
	tests := []struct {
		name    string
		conns   []conn
		newUser uint32
		want    conn
	}{
		{"no connections", nil, 1, conn{}},
		{"all users have one", []conn{{1, 9}, {2, 5}, {3, 7}}, 4, conn{2, 5}},
		{"one user has two", []conn{{1, 1}, {2, 9}, {2, 5}, {3, 2}}, 4, conn{2, 5}},
		{"two users have two, one with the new one", []conn{{1, 1}, {2, 9}, {2, 5}, {3, 2}}, 1, conn{1, 1}},
		{"the user of the new one has the most", []conn{{1, 1}, {2, 9}, {2, 5}}, 2, conn{2, 5}},
	}
	for _, test := range tests {
		found := LeastUsedOfBusiest(slices.Values(test.conns), test.newUser,
			func(c conn) uint32 { return c.uid }, func(a, b conn) bool { return a.lastUse < b.lastUse })
		require.Equal(t, test.want, found, test.name)
	}
}
