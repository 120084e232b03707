//go:build linux

package packets

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/psn"
)

func TestNearestSequence(t *testing.T) {
	for _, c := range []struct {
		v, base psn.Value
		near    uint64
		want    int64
	}{
		{5, 5, 0, 0}, {6, 5, 0, 1}, {4, 5, 0, -1}, {0, 0xffffff, 0, 1}, {0xffffff, 0, 1 << 24, 1<<24 - 1},
		{3, 0, 1<<24 + 10, 1<<24 + 3}, {0x700000, 0, 0, 0x700000}, {0x900000, 0, 0, -0x700000}, {0, 0, 1 << 40, 1 << 40},
	} {
		got, ok := NearestSeq(c.v, c.base, c.near)
		require.Equal(t, c.want, int64(got))
		require.Equal(t, c.want >= 0, ok)
		if ok {
			require.Equal(t, c.v, PSNOf(c.base, got))
		}
	}
}
