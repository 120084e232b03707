package soft

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// Zero means the default, and negative means no limit.
func TestByteLimits(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want shm.ByteLimits
	}{
		{Config{}, shm.ByteLimits{Process: defaultMappedPerProcess, All: defaultMapped}},
		{Config{MaxMappedPerProcess: -1, MaxMapped: 7}, shm.ByteLimits{All: 7}},
	} {
		cfg, err := c.cfg.withDefaults()
		require.NoError(t, err)
		require.Equal(t, c.want, cfg.byteLimits())
	}
	if bits.UintSize == 64 {
		require.EqualValues(t, []int64{1 << 40, 16 << 40}, []int64{defaultMappedPerProcess, defaultMapped})
	} else {
		require.EqualValues(t, []int64{64 << 20, 512 << 20}, []int64{defaultMappedPerProcess, defaultMapped})
	}
}
