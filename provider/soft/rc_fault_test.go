//go:build linux

package soft

import "testing"

// TestWireTruncatedFile is like TestTruncatedFile, for the wire path.
func TestWireTruncatedFile(t *testing.T) {
	testTruncatedFile(t, func(t *testing.T) (a, b *end, turn func()) { return newMemoryPair(t) })
}
