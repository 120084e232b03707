//go:build linux

package soft

import "testing"

// TestTruncatedFile checks that requests fail if they use a page that the file has lost.
func TestTruncatedFile(t *testing.T) {
	testTruncatedFile(t, func(t *testing.T) (a, b *end, turn func()) {
		a, b = newLocalPair(t, memoryConfig{})
		return a, b, func() {}
	})
}
