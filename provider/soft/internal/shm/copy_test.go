package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// CopyUncached copies like copy for all lengths and alignments, and writes nothing else.
func TestCopyUncached(t *testing.T) {
	src := make([]byte, 600)
	for i := range src {
		src[i] = byte(i) | 1
	}
	for at := range 70 {
		for _, n := range []int{0, 1, 63, 64, 65, 128, 200, 511} {
			dst := make([]byte, 700)
			require.Equal(t, n, CopyUncached(dst[at:at+n], src[at:]))
			require.Equal(t, n, CopyUncached(dst[at:], src[at:at+n]))
			require.Equal(t, src[at:at+n], dst[at:at+n])
			require.Equal(t, make([]byte, at), dst[:at])
			require.Equal(t, make([]byte, 700-at-n), dst[at+n:])
		}
	}
}
