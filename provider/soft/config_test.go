package soft

import (
	"flag"
	"fmt"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestPathText checks that a path can be a flag.
func TestPathText(t *testing.T) {
	for _, path := range []Path{PathAuto, PathLocal, PathWire} {
		f := flag.NewFlagSet("test", flag.ContinueOnError)
		var got Path
		f.TextVar(&got, "path", PathAuto, "")
		require.NoError(t, f.Parse([]string{"-path", path.String()}))
		require.Equal(t, path, got)
	}
	path := PathWire
	for _, text := range []string{"", "scenic", "Local", "path 3"} {
		err := path.UnmarshalText([]byte(text))
		require.EqualError(t, err, fmt.Sprintf("path: %q is none of auto, local and wire", text))
		require.ErrorAs(t, err, new(*verbs.ParamError))
	}
	require.Equal(t, PathWire, path, "an error changes nothing")
}

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
