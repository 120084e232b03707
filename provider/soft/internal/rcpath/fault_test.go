//go:build linux

package rcpath

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
)

// TestWireTruncatedFile is like TestTruncatedFile, for the wire path.
func TestWireTruncatedFile(t *testing.T) {
	qptest.TestTruncatedFile(t, func(t *testing.T) (a, b *qptest.End, turn func()) { return newMemoryPair(t) })
}
