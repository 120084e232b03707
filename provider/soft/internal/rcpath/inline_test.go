//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// SendInline refuses all messages on the wire path.
func TestWireSendInlineRefuses(t *testing.T) {
	x, _, _ := newMemoryPair(t)
	require.False(t, x.QP.SendInline(1, 0, nil))
}
