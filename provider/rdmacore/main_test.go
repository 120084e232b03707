//go:build rdmacore && cgo && linux

package rdmacore_test

import (
	"os"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

// TestMain checks for leaks. librdmacm creates a context for each device in the first
// Open and keeps it until the process ends, so TestMain calls Open before it begins to
// count.
func TestMain(m *testing.M) {
	if os.Getenv("RDMA_TEST_ADDR") != "" {
		if p, err := rdmacore.Open(); err == nil {
			_ = p.Close()
		}
	}
	leak.Main(m)
}
