package latency

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "3": {3}, "0,2-4": {0, 2, 3, 4}} {
		got, err := ParseCPUs(list)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, list := range []string{",", "-", "a", "1-", "4-2", "99999999"} {
		_, err := ParseCPUs(list)
		require.ErrorContains(t, err, list)
	}
}

func TestPlace(t *testing.T) {
	const client, server = false, true
	require.Equal(t, []int{4}, Place([]int{4, 6}, 1, false, client))
	require.Equal(t, []int{6}, Place([]int{4, 6}, 1, false, server))
	require.Equal(t, []int{1, 2}, Place([]int{1, 2, 3}, 2, false, client))
	require.Equal(t, []int{3, 1}, Place([]int{1, 2, 3}, 2, false, server))
	require.Nil(t, Place(nil, 1, false, client))
	if allowed := AllowedCPUs(); len(allowed) > 1 {
		require.Equal(t, allowed[:1], Place(nil, 1, true, client))
		require.Equal(t, allowed[1:2], Place(nil, 1, true, server))
	} else {
		require.Nil(t, Place(nil, 1, true, client))
	}
}

func TestCrowded(t *testing.T) {
	require.Empty(t, Crowded([]int{0, 1}, 2))
	require.Equal(t, "2 loops share 1 processors and will delay each other", Crowded([]int{1, 1}, 2))
	require.NotEmpty(t, Crowded([]int{0, 1, 2}, 4))
	if n := len(AllowedCPUs()); n > 0 {
		require.Empty(t, Crowded(nil, n))
		require.NotEmpty(t, Crowded(nil, n+1))
	}
}

// TestLoopback checks that the addresses are outside 127.0.0.0/16, which other programs
// use.
func TestLoopback(t *testing.T) {
	server, client := Loopback()
	require.NotEqual(t, server, client)
	for _, addr := range []netip.Addr{server, client} {
		require.True(t, addr.IsLoopback())
		require.Greater(t, addr.As4()[1], byte(0))
	}
}
