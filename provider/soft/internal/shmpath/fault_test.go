//go:build linux

package shmpath

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
)

// TestTruncatedFile checks that requests fail if they use a page that the file has lost.
func TestTruncatedFile(t *testing.T) {
	qptest.TestTruncatedFile(t, func(t *testing.T) (a, b *qptest.End, turn func()) {
		a, b = newLocalPair(t, memoryConfig{})
		return a, b, func() {}
	})
}
